import CSystem
import Synchronization

/// A connected socket on its way to the loop that will own it. If it never arrives, because the loop has
/// stopped, it closes itself.
package final class ConnectedSocket: Sendable {
    private let descriptor: Atomic<Int32>
    /// Whom it is connected to.
    package let peer: SocketAddress

    init(descriptor: Int32, peer: SocketAddress) {
        self.descriptor = Atomic(descriptor)
        self.peer = peer
    }

    deinit {
        let left = descriptor.load(ordering: .relaxed)
        if left >= 0 { _ = pando_close(left) }
    }

    /// The descriptor; the caller closes it. Once.
    func take() -> Int32 {
        let taken = descriptor.exchange(-1, ordering: .relaxed)
        precondition(taken >= 0, "a socket has one owner")
        return taken
    }
}
