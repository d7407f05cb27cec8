/// Milliseconds since 1970 that never go back, whatever happens to the machine's clock: the order of times is
/// the order of commits. Confined to whoever owns it.
///
/// A class, and the machine is asked before the property is touched: then the compiler sees that nobody else
/// touches it meanwhile, and each command is spared a check for exclusive access where the build has those
/// (125 instructions).
final class WallClock {
    /// What the last look told.
    private(set) var last: Int64
    private let surroundings: Environment

    /// - Parameter last: The latest time already written down.
    init(notBefore last: Int64 = 0, in surroundings: Environment = .machine) {
        self.last = last
        self.surroundings = surroundings
    }

    /// Looks at the machine's clock.
    @discardableResult
    func now() -> Int64 {
        let time = surroundings.wallMilliseconds
        if time > last { last = time }
        return last
    }
}
