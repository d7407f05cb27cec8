import COperatingSystem
import Synchronization

/// A connected socket that no loop owns yet. If no loop adopts it, because the loop has stopped, its deinit
/// closes the descriptor.
package final class ConnectedSocket: Sendable {
    private let descriptor: Atomic<Int32>
    /// The address at the other end.
    package let peer: SocketAddress
    /// Counts the connection until its descriptor is closed.
    let limiter: ConnectionLimiter?
    /// Whether it was accepted in the administrators' reserve.
    package let isReserved: Bool
    /// The TLS of a connection that moves to another loop.
    let secure: SecureStage?
    /// What its proxy has said, of a connection that moves to another loop.
    let proxy: ProxyStage?
    /// Counts a connection that moves to another loop.
    let grant: AddressLimiter.Grant?

    init(descriptor: Int32, peer: SocketAddress, limiter: ConnectionLimiter? = nil, isReserved: Bool = false)
    {
        self.descriptor = Atomic(descriptor)
        self.peer = peer
        self.limiter = limiter
        self.isReserved = isReserved
        secure = nil
        proxy = nil
        grant = nil
        limiter?.didAccept(isReserved: isReserved)
    }

    /// A socket that moves from one loop to another: `limiter` counts it already.
    init(
        movingDescriptor descriptor: Int32, peer: SocketAddress, limiter: ConnectionLimiter?,
        isReserved: Bool, secure: SecureStage?, proxy: ProxyStage?,
        grant: AddressLimiter.Grant?
    ) {
        self.descriptor = Atomic(descriptor)
        self.peer = peer
        self.limiter = limiter
        self.isReserved = isReserved
        self.secure = secure
        self.proxy = proxy
        self.grant = grant
    }

    deinit {
        let left = descriptor.load(ordering: .relaxed)
        guard left >= 0 else { return }
        _ = pando_close(left)
        limiter?.didClose(isReserved: isReserved)
    }

    /// Closes it with RST, instead of giving it to a loop: nothing of it is left in the kernel.
    package func reset() {
        let descriptor = takeDescriptor()
        _ = pando_linger_zero(descriptor)
        _ = pando_close(descriptor)
        limiter?.didClose(isReserved: isReserved)
    }

    /// Moves the descriptor out, once. The caller closes it, and reports that to ``limiter``.
    func takeDescriptor() -> Int32 {
        let moved = descriptor.exchange(-1, ordering: .relaxed)
        precondition(moved >= 0, "the descriptor was taken before")
        return moved
    }
}
