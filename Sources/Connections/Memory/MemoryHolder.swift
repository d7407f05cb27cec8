import PandoTime

/// A client that makes the server hold memory, as the order of disconnection judges it (``MemoryRelief``).
package struct MemoryHolder: Equatable, Sendable {
    /// The client's place in the caller's table.
    package var index: Int
    package var byteCount: Int
    package var progress: ClientProgress
    /// When it last sent anything.
    package var lastHeard: MonotonicTime

    package init(index: Int, byteCount: Int, progress: ClientProgress, lastHeard: MonotonicTime) {
        self.index = index
        self.byteCount = byteCount
        self.progress = progress
        self.lastHeard = lastHeard
    }
}
