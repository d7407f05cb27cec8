import PandoBytes

/// How a journal lays out its files.
package struct JournalOptions: Sendable {
    /// A segment that has reached this many bytes is the last one's predecessor: the next batch begins a new
    /// one.
    package var segmentByteLimit = Self.standardSegmentByteLimit
    /// Room is taken from the disk in steps of this many bytes.
    package var reservationByteCount = Self.standardReservationByteCount

    /// Large enough that making one is rare, small enough that little more than a checkpoint needs is kept.
    package static let standardSegmentByteLimit = 64 << 20
    /// A second of heavy writing.
    package static let standardReservationByteCount = 16 << 20

    package init() {}
}

// Room is known before it is needed: the host asks for it, learns that there is none while nothing has been
// applied, and refuses. What was granted is never taken back, not by a new segment either: that one takes its
// room before the old one gives its own up.

extension Journal {
    /// Whether a file for the next segment is worth preparing now: the segment at hand is on its way to its
    /// end.
    package var wantsPreparedSegment: Bool {
        preparedByteCount == 0 && disk.overwritesInPlace && byteOffset >= rotationOffset / 4
    }

    /// How many bytes of the next segment to prepare. Never more than a segment that is not the last has:
    /// zeros are the end of the last one only.
    package var wantedPreparedByteCount: Int { min(options.segmentByteLimit, PreparedSegment.byteLimit) }

    /// ``PreparedSegment/make(byteCount:on:isAbandoned:)`` has made a file of so many bytes: the next
    /// segment's.
    package mutating func take(preparedByteCount byteCount: Int) { preparedByteCount = byteCount }

    /// Gives up the file that was prepared, and with it its room.
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

    /// At the end, when all is written and synced: gives back the room behind it, prepared or promised.
    package mutating func giveRoomBack() throws(JournalError) {
        try discardPreparedSegment()
        do throws(DiskFailure) {
            try disk.truncate(file, to: byteOffset)
        } catch {
            failure = error
            throw .disk(error)
        }
        reservedEnd = byteOffset
    }

    /// Bytes that can be accepted (headers and padding included) and written without asking the disk for
    /// room.
    package var headroom: Int { reservedEnd - byteOffset - pendingByteCount }

    /// Takes room for at least `byteCount` more bytes: in whole steps, or on a nearly full disk just that.
    /// - Returns: false when the disk has no room, not even with what was prepared for later, which is given
    ///   up first. What was granted stays, and asking again is harmless.
    /// - Throws: Any other failure of the disk, which is final.
    package mutating func reserve(_ byteCount: Int) throws(JournalError) -> Bool {
        try refuseIfPoisoned()
        let missing = byteCount - headroom
        guard missing > 0 else { return true }
        let step = options.reservationByteCount
        if try takeRoom((missing + step - 1) / step * step) { return true }
        if missing % step != 0, try takeRoom(missing) { return true }
        // What was prepared for later is needed now.
        guard preparedByteCount > 0 else { return false }
        try discardPreparedSegment()
        return try takeRoom(missing)
    }

    private mutating func takeRoom(_ byteCount: Int) throws(JournalError) -> Bool {
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

    /// Ends the segment and begins the next one, which the batch at hand will open. When there is no room or
    /// no descriptor for that, the old one goes on and the next try is later (``postponedRotation``).
    mutating func rotate() throws(JournalError) {
        // A segment exists only after every record before it is on disk.
        try sync()
        let header = SegmentHeader(
            directory: directory, timeline: timeline, firstSequence: lastWritten.successor)
        let room = max(0, reservedEnd - byteOffset, pendingByteCount)
        let new: Storage.File
        do throws(DiskFailure) {
            new = try makeSegment(header, room: room)
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
            // Gives back the room behind the old one's end.
            try disk.truncate(file, to: byteOffset)
        } catch {
            failure = error
            throw .disk(error)
        }
        postponedRotation = nil
        file = new
        seed = header.seed
        byteOffset = JournalFormat.segmentHeaderByteCount
        reservedEnd = max(byteOffset + room, preparedByteCount)
        if preparedByteCount > 0 { takenPreparedCount += 1 }
        preparedByteCount = 0
        rotationOffset = options.segmentByteLimit
        segmentCount += 1
        segmentFirstSequence = header.firstSequence
    }

    /// Makes the next segment of the file that was prepared, if it is still there.
    private mutating func makeSegment(_ header: SegmentHeader, room: Int) throws(DiskFailure) -> Storage.File
    {
        do throws(DiskFailure) {
            return try SegmentMaker.make(header, on: disk, room: room, preparedByteCount: preparedByteCount)
        } catch {
            guard preparedByteCount > 0, error.isMissing else { throw error }
        }
        // Whoever took it away has not harmed the log: it had no name yet.
        preparedByteCount = 0
        return try SegmentMaker.make(header, on: disk, room: room)
    }
}
