// Bytes that connections keep for bodies and messages that are not complete. They are bounded for each loop, and it is
// the one who keeps most that has to go: nobody is shut out by somebody else's large body.

extension IOLoop {
    /// What a connection keeps below this is never counted: no one is refused a small body for the sake of others' large
    /// ones. Also what is read on the loop itself; a larger body takes milliseconds, and the helper thread.
    static let smallByteCount = 64 << 10
    /// Bytes on one loop beside those: two of the largest bodies (``RESTLimits/writeByteCount``), or 32 of the largest
    /// messages.
    private static let unfinishedByteLimit = 512 << 20

    /// Says how much a session keeps. When all of them keep too much, the largest is told to let go, which may be this one.
    /// - Complexity: O(1); O(sessions) when too much is kept.
    func keepUnfinished(_ byteCount: Int, for session: ClientSession) {
        unfinishedByteCount += Self.charge(byteCount) - Self.charge(session.unfinishedByteCount)
        session.unfinishedByteCount = byteCount
        while unfinishedByteCount > Self.unfinishedByteLimit, let largest = largestHolder() {
            keepUnfinished(0, for: largest)
            largest.dropUnfinished()
        }
    }

    private static func charge(_ byteCount: Int) -> Int { max(0, byteCount - smallByteCount) }

    private func largestHolder() -> ClientSession? {
        var found: ClientSession?
        for case let session? in sessions where session.mayDropUnfinished {
            guard session.unfinishedByteCount > max(Self.smallByteCount, found?.unfinishedByteCount ?? 0) else { continue }
            found = session
        }
        return found
    }
}
