/// How long requests may wait for others, in work: a bound that follows from the quantum of the server's
/// scheduler and from the number of sessions, and not from how much any of them has asked for.
///
/// A session may do work of one quantum in a round, and once one request more than that, which is charged to
/// its next rounds; so may a database. `n` requests of a session, each of work `w` at most, are done after so
/// many rounds of its database's sessions, in each of which every one of the others may have done that much:
///
///     rounds   = ⌈(w + n·w) / quantum⌉ + 1
///     database = 2 · sessions · ((rounds + 1) · quantum + w) + n·w
///     others   = 2 · (databases − 1) · ((⌈(database + w) / quantum⌉ + 2) · quantum + w)
///
/// Twice, since between two turns of a round a session that has just come has one. Before, a burst may be
/// done in the order of arrival.
struct FairnessBound {
    /// Nanoseconds of work, as all of these.
    let quantum: UInt64
    let burst: UInt64
    /// The most that one request takes.
    let heaviest: UInt64
    let databaseCount: UInt64

    /// - Parameters:
    ///   - requestCount: Requests of the session, this one included, that were not done when it came.
    ///   - sessionCount: Sessions of its database that may have had requests.
    func work(requestCount: Int, sessionCount: Int) -> UInt64 {
        func quanta(_ work: UInt64) -> UInt64 { (work + quantum - 1) / quantum }
        let own = UInt64(requestCount) * heaviest
        let rounds = quanta(heaviest + own) + 1
        let database = 2 * UInt64(sessionCount) * ((rounds + 1) * quantum + heaviest) + own
        let others = 2 * (databaseCount - 1) * ((quanta(database + heaviest) + 2) * quantum + heaviest)
        return burst + heaviest + database + others
    }
}
