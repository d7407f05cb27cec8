/// What a ``JournalWriter`` has others do. It calls them in ``JournalWriter/process(_:)``.
package struct JournalCallbacks: Sendable {
    let report: @Sendable (StorageEvent) -> Void
    let writeCheckpoint: @Sendable (CheckpointJob) -> Void
    let preparer: SegmentPreparer

    /// - Parameters:
    ///   - report: The sink of the writer's events.
    ///   - writeCheckpoint: Has a checkpoint written, and later posts
    ///     ``JournalRequest/checkpointFinished(isWritten:)``.
    ///   - preparer: Has a segment prepared, and later posts ``JournalRequest/segmentPrepared(byteCount:)``.
    package init(
        report: @escaping @Sendable (StorageEvent) -> Void,
        writeCheckpoint: @escaping @Sendable (CheckpointJob) -> Void, preparer: SegmentPreparer
    ) {
        self.report = report
        self.writeCheckpoint = writeCheckpoint
        self.preparer = preparer
    }
}

/// How a ``JournalWriter`` has segments prepared: by another thread (``SegmentThread``), or by a simulation.
package struct SegmentPreparer: Sendable {
    /// Begins to make a file of this many bytes; one at a time.
    package var prepare: @Sendable (_ byteCount: Int) -> Void
    /// Gives it up, unless it is finished.
    package var cancel: @Sendable () -> Void

    package init(
        prepare: @escaping @Sendable (_ byteCount: Int) -> Void, cancel: @escaping @Sendable () -> Void
    ) {
        self.prepare = prepare
        self.cancel = cancel
    }
}
