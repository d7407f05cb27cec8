import CSystem
import Synchronization

/// A connected socket on its way to the loop that will own it. If it never arrives, because the loop has
/// stopped, it closes itself.
package final class ConnectedSocket: Sendable {
    private let descriptor: Atomic<Int32>
    /// Whom it is connected to.
    package let peer: SocketAddress
    /// Counts it, until its descriptor is closed.
    let limiter: ConnectionLimiter?
    /// It was accepted in the administrators' reserve.
    package let isReserved: Bool

    init(descriptor: Int32, peer: SocketAddress, limiter: ConnectionLimiter? = nil, isReserved: Bool = false)
    {
        self.descriptor = Atomic(descriptor)
        self.peer = peer
        self.limiter = limiter
        self.isReserved = isReserved
        limiter?.didAccept(isReserved: isReserved)
    }

    /// One that goes from one loop to another, and is counted already.
    init(
        movingDescriptor descriptor: Int32, peer: SocketAddress, limiter: ConnectionLimiter?, isReserved: Bool
    ) {
        self.descriptor = Atomic(descriptor)
        self.peer = peer
        self.limiter = limiter
        self.isReserved = isReserved
    }

    deinit {
        let left = descriptor.load(ordering: .relaxed)
        guard left >= 0 else { return }
        _ = pando_close(left)
        limiter?.didClose(isReserved: isReserved)
    }

    /// The descriptor; the caller closes it, and tells ``limiter`` so. Once.
    func take() -> Int32 {
        let taken = descriptor.exchange(-1, ordering: .relaxed)
        precondition(taken >= 0, "a socket has one owner")
        return taken
    }
}
