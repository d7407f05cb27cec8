import Synchronization

/// When each member of the presence scenario began to disconnect; all workers share it. Any thread. A lock is
/// cheap enough: it is taken only when a member disconnects or comes back.
final class LeaveTimes: Sendable {
    private let leaving = Mutex<[Int: Int]>([:])

    func leaves(_ member: Int, at moment: Int) { leaving.withLock { $0[member] = moment } }

    func moment(of member: Int) -> Int? { leaving.withLock { $0[member] } }
}
