import PandoBytes

// Space on the disk. The caller reserves it before it applies a command, so that it can refuse the command
// when the disk is full. Reserved space stays reserved: a new segment reserves its space before the old one
// releases its own.

extension Journal {
    /// Whether a file for the next segment should be prepared now: a quarter of the current one is written.
    package var wantsPreparedSegment: Bool {
        preparedByteCount == 0 && disk.overwritesInPlace && byteOffset >= rotationOffset / 4
    }

    /// The bytes of the next segment to prepare. Never more than a full segment has, since only in the last
    /// one zeros mark the end.
    package var wantedPreparedByteCount: Int { min(options.segmentByteLimit, PreparedSegment.byteLimit) }

    /// Uses the file that ``PreparedSegment/make(byteCount:on:noteShortage:isAbandoned:)`` made for the next
    /// segment.
    /// - Parameter byteCount: Its size.
    package mutating func usePreparedSegment(byteCount: Int) { preparedByteCount = byteCount }

    /// Removes the prepared file, if there is one, which releases its space.
    /// - Throws: ``JournalError/poisoned(by:)``, ``JournalError/disk(_:)``.
    package mutating func discardPreparedSegment() throws(JournalError) {
        try refuseIfPoisoned()
        guard preparedByteCount > 0 else { return }
        preparedByteCount = 0
        do throws(DiskFailure) {
            try PreparedSegment.remove(from: disk)
        } catch {
            failure = error
            throw .disk(error)
        }
    }

    /// Releases all space that was reserved or prepared. For a stop, when everything is written and synced.
    /// - Throws: ``JournalError/poisoned(by:)``, ``JournalError/disk(_:)``.
    package mutating func releaseReservation() throws(JournalError) {
        try discardPreparedSegment()
        do throws(DiskFailure) {
            try disk.truncate(file, to: byteOffset)
        } catch {
            failure = error
            throw .disk(error)
        }
        reservedEnd = byteOffset
    }

    /// Bytes of records (headers and padding included) for which space is reserved beyond the pending ones.
    package var reservedByteCount: Int { reservedEnd - byteOffset - pendingByteCount }

    /// Reserves space for at least `byteCount` more bytes: in whole steps, or on a nearly full disk exactly.
    /// - Returns: false when the disk is full, even without the prepared segment, which is removed before.
    ///   Earlier reservations stay, and a later try may succeed.
    /// - Throws: ``JournalError/poisoned(by:)``, ``JournalError/disk(_:)`` for any other failure, which is
    ///   final.
    package mutating func reserve(_ byteCount: Int) throws(JournalError) -> Bool {
        try refuseIfPoisoned()
        let missing = byteCount - reservedByteCount
        guard missing > 0 else { return true }
        let step = options.reservationByteCount
        if try reserveSpace((missing + step - 1) / step * step) { return true }
        if missing % step != 0, try reserveSpace(missing) { return true }
        // The space of the prepared segment is needed now.
        guard preparedByteCount > 0 else { return false }
        try discardPreparedSegment()
        return try reserveSpace(missing)
    }

    private mutating func reserveSpace(_ byteCount: Int) throws(JournalError) -> Bool {
        let end = reservedEnd + byteCount
        do throws(DiskFailure) {
            try disk.reserve(reservedEnd..<end, of: file)
        } catch {
            if error.isOutOfSpace { return false }
            failure = error
            throw .disk(error)
        }
        reservedEnd = end
        return true
    }

    /// Ends the segment and begins the next one with the pending records. Without space or descriptors for
    /// that, the old segment is continued, and a later write tries again (``postponedRotation``).
    mutating func rotate() throws(JournalError) {
        // A segment exists only after every record before it is on disk.
        try sync()
        let header = SegmentHeader(
            directory: directory, timeline: timeline, firstSequence: lastWritten.successor)
        let reserved = max(0, reservedEnd - byteOffset, pendingByteCount)
        let new: Storage.File
        do throws(DiskFailure) {
            new = try makeSegment(header, reserving: reserved)
        } catch {
            guard error.mayBeRetried else {
                failure = error
                throw .disk(error)
            }
            postponedRotation = error
            rotationOffset = byteOffset + max(1, options.segmentByteLimit / 8)
            return
        }
        do throws(DiskFailure) {
            // Releases the space behind the end of the old segment.
            try disk.truncate(file, to: byteOffset)
        } catch {
            failure = error
            throw .disk(error)
        }
        postponedRotation = nil
        file = new
        seed = header.seed
        byteOffset = JournalFormat.segmentHeaderByteCount
        reservedEnd = max(byteOffset + reserved, preparedByteCount)
        if preparedByteCount > 0 { usedPreparedCount += 1 }
        preparedByteCount = 0
        rotationOffset = options.segmentByteLimit
        segmentCount += 1
        segmentFirstSequence = header.firstSequence
        checkInvariants()
    }

    /// Makes the next segment, of the prepared file if it still exists.
    private mutating func makeSegment(_ header: SegmentHeader, reserving reserved: Int) throws(DiskFailure)
        -> Storage.File
    {
        do throws(DiskFailure) {
            return try SegmentMaker.make(
                header, on: disk, reserving: reserved, preparedByteCount: preparedByteCount)
        } catch {
            guard preparedByteCount > 0, error.isMissing else { throw error }
        }
        // The prepared file was removed from outside. It was not yet part of the journal.
        preparedByteCount = 0
        return try SegmentMaker.make(header, on: disk, reserving: reserved)
    }
}
