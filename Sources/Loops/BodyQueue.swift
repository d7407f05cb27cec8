import PandoEngine

/// Bodies that wait to be parsed, by session: deficit round robin (Shreedhar and Varghese, 1995). In each
/// round a session may have a quantum of bytes parsed, and saves up for a body that is larger. So many small
/// bodies do not wait behind a large one, and no number of small ones keeps a large one waiting for more
/// rounds than it has quanta.
struct BodyQueue<Job> {
    private struct Flow {
        let session: SessionID
        /// Oldest first.
        var jobs: [(job: Job, byteCount: Int)]
        /// Bytes that it may have parsed.
        var credit = 0
        /// It got its quantum in this round.
        var isServed = false
    }

    /// Bytes of one session in one round.
    let quantum: Int
    /// In turn, from `current` on.
    private var flows: [Flow] = []
    private var current = 0

    init(quantum: Int) {
        precondition(quantum > 0)
        self.quantum = quantum
    }

    var isEmpty: Bool { flows.isEmpty }

    /// Adds a body. O(sessions).
    mutating func append(_ job: Job, byteCount: Int, of session: SessionID) {
        if let index = flows.firstIndex(where: { $0.session == session }) {
            flows[index].jobs.append((job, byteCount))
        } else {
            // Before the session whose turn it is: the last of this round.
            flows.insert(Flow(session: session, jobs: [(job, byteCount)]), at: current)
            current += 1
            if current == flows.count { current = 0 }
        }
    }

    /// The next body; nil where there is none.
    /// - Complexity: O(sessions × quanta of the smallest body).
    mutating func removeFirst() -> Job? {
        while !flows.isEmpty {
            if !flows[current].isServed {
                flows[current].isServed = true
                flows[current].credit += quantum
            }
            if flows[current].jobs[0].byteCount <= flows[current].credit {
                let (job, byteCount) = flows[current].jobs.removeFirst()
                flows[current].credit -= byteCount
                if flows[current].jobs.isEmpty { removeCurrent() }
                return job
            }
            endTurn()
        }
        return nil
    }

    private mutating func endTurn() {
        flows[current].isServed = false
        current += 1
        if current == flows.count { current = 0 }
    }

    /// A session without bodies saves up nothing.
    private mutating func removeCurrent() {
        flows.remove(at: current)
        if current == flows.count { current = 0 }
    }
}
