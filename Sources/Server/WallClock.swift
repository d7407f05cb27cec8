/// Milliseconds since 1970 that never go back, whatever happens to the machine's clock: the order of times is the
/// order of commits.
struct WallClock {
    private var last: Int64
    private let surroundings: Surroundings

    /// - Parameter last: The latest time already written down.
    init(notBefore last: Int64 = 0, in surroundings: Surroundings = .machine) {
        self.last = last
        self.surroundings = surroundings
    }

    mutating func now() -> Int64 {
        last = max(last, surroundings.wallMilliseconds)
        return last
    }
}
