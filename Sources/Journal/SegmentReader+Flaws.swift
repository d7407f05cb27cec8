import PandoBytes

extension SegmentReader {
    func problem(at byteOffset: Int, _ flaw: JournalFlaw) -> JournalProblem {
        JournalProblem(file: fileName, byteOffset: byteOffset, flaw: flaw)
    }

    /// As ``classify(_:_:entry:byteOffset:next:)``, for a reader that ends at a torn tail and accepts no
    /// other flaw.
    /// - Returns: The bytes of the torn tail; nil when the record is good by now.
    /// - Throws: ``JournalError/corrupt(_:)`` for damage, ``JournalError/disk(_:)``.
    mutating func tornByteCount(
        _ reason: BadRecord, _ sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int,
        next: SegmentName?
    ) throws(JournalError) -> Int? {
        let flaw: JournalFlaw?
        do throws(DiskFailure) {
            flaw = try classify(reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
        } catch {
            throw .disk(error)
        }
        switch flaw {
        case nil: return nil
        case .tornTail(let byteCount)?: return byteCount
        case let damage?: throw .corrupt(problem(at: byteOffset, damage))
        }
    }

    /// Decides what a bad record is: damage, or a torn tail. It counts as torn if no later record proves that
    /// it was on disk: nothing tells it from a synced last batch that the disk has damaged (``TornTail``).
    /// - Returns: nil when the record is good by now. Then ``nextEntry()`` reads it again. (While a server
    ///   writes, a reader may find zeros, and behind them records that were written since.)
    /// - Throws: ``DiskFailure``.
    mutating func classify(
        _ reason: BadRecord, _ sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int,
        next: SegmentName?
    ) throws(DiskFailure) -> JournalFlaw? {
        do throws(DiskFailure) {
            let flaw = try flaw(reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
            return try isReadableNow(at: byteOffset) ? nil : flaw
        } catch {
            guard try window.updateForTruncation() else { throw error }
            restartEntry()
            return nil
        }
    }

    private mutating func flaw(
        _ reason: BadRecord, _ sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int,
        next: SegmentName?
    ) throws(DiskFailure) -> JournalFlaw {
        if let next {
            if byteOffset == byteCount { return .entryUnfinished(sequence: entry) }
            return .damaged(reason, sequence: sequence, witness: next.firstSequence)
        }
        switch try evidence(against: sequence, entry: entry, byteOffset: byteOffset) {
        case .notFound: return .tornTail(byteCount: try window.writtenEnd(from: byteOffset) - offset)
        case .found(let header, _): return .damaged(reason, sequence: sequence, witness: header.sequence)
        case .gaveUp: return .undecidable(reason, sequence: sequence)
        }
    }

    /// The time of the loaded record at `offset`.
    func timestamp(at offset: Int) -> Int64 {
        RecordHeader(window.bytes(offset..<offset + JournalFormat.recordHeaderByteCount), at: 0).timestamp
    }

    /// Frees the memory of the reader, and returns the open file.
    consuming func finish() -> Storage.File { window.finish() }
}
