/// How a journal lays out its files.
package struct JournalOptions: Sendable {
    /// The size at which a segment is full. The next write then begins a new one.
    package var segmentByteLimit = Self.standardSegmentByteLimit
    /// Space is reserved in steps of this many bytes.
    package var reservationByteCount = Self.standardReservationByteCount

    /// Large enough that new segments are rare, and small enough that little journal is kept beyond what a
    /// checkpoint needs.
    package static let standardSegmentByteLimit = 64 << 20
    /// A second of heavy writing.
    package static let standardReservationByteCount = 16 << 20

    package init() {}
}
