import PandoTraffic

/// The server's process, which is looked at again and again while a run lasts.
struct ServerWatch {
    /// nil when the server is not on this machine.
    let process: Int32?
    /// Stays true for a server elsewhere.
    private(set) var isAlive = true
    /// The most resident bytes since the phase began.
    private var memoryPeak = 0

    init(_ process: Int32?) {
        self.process = process
    }

    /// Resident bytes; nil when the process is not on this machine, or gone.
    var memory: Int? { process.flatMap(residentByteCount) }

    mutating func beginPhase() { memoryPeak = memory ?? 0 }

    /// Reads the memory.
    /// - Returns: Whether the process is found to be gone, the first time.
    mutating func look() -> Bool {
        guard process != nil, isAlive else { return false }
        guard let memory else {
            isAlive = false
            return true
        }
        memoryPeak = max(memoryPeak, memory)
        return false
    }

    /// The most memory of the phase; nil where none was read.
    /// - Parameter memoryAfter: What was read last.
    func peak(including memoryAfter: Int?) -> Int? {
        memoryAfter.map { max(memoryPeak, $0) } ?? (memoryPeak > 0 ? memoryPeak : nil)
    }
}
