import PandoTime

/// A client that makes the server hold memory, as the order of disconnection judges it (``MemoryRelief``).
package struct MemoryHolder: Equatable, Sendable {
    /// What the caller knows it by.
    package var number: UInt64
    package var byteCount: Int
    package var progress: ClientProgress
    /// When it last sent anything.
    package var lastHeard: MonotonicTime

    package init(number: UInt64, byteCount: Int, progress: ClientProgress, lastHeard: MonotonicTime) {
        self.number = number
        self.byteCount = byteCount
        self.progress = progress
        self.lastHeard = lastHeard
    }
}
