import Synchronization

/// Moments that several workers share: when each member of `presence` was asked to leave. Any thread; a lock,
/// since it is asked only when somebody comes or goes.
final class Board: Sendable {
    private let leaving = Mutex<[Int: Int]>([:])

    func leaves(_ member: Int, at moment: Int) { leaving.withLock { $0[member] = moment } }

    func moment(of member: Int) -> Int? { leaving.withLock { $0[member] } }
}
