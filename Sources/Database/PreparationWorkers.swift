import PandoEngine

/// How ``DatabaseHost`` leaves long computations to other threads: to ``SnapshotWorkers``, or to a test.
package struct PreparationWorkers: Sendable {
    /// Has a job done; any thread may call its `finish`.
    package var start: @Sendable (PreparationJob) -> Void
    /// Drops the jobs of a session that has ended, as far as they have not begun.
    package var cancel: @Sendable (SessionID) -> Void
    /// Releases values that take long to free: large nodes, the listens of a session that had many.
    package var release: @Sendable (consuming any Sendable) -> Void

    package init(
        start: @escaping @Sendable (PreparationJob) -> Void,
        cancel: @escaping @Sendable (SessionID) -> Void = { _ in },
        release: @escaping @Sendable (consuming any Sendable) -> Void = { _ in }
    ) {
        self.start = start
        self.cancel = cancel
        self.release = release
    }
}
