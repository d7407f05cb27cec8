import PandoDatabase

/// How far a loop has dealt out a batch of the databases' outputs.
///
/// One output may have as many recipients as the loop has sessions. So outputs are dealt out in pieces,
/// between which the loop looks at the clock: the rest waits for the next tick.
struct OutputPosition {
    /// Recipients of one piece, an output to one session counted as one: some hundred microseconds, where
    /// the outputs are small.
    static let pieceCount = 1024
    /// A piece ends earlier when it has taken this long: outputs of 64 KiB take tens of microseconds each,
    /// and what an output costs differs from recipient to recipient.
    static let pieceDuration: Duration = .microseconds(500)
    /// How long outputs are delivered early (``OutputBacklog``) behind a piece.
    static let earlyDuration: Duration = .microseconds(250)
    /// Items between two looks at the clock; of a shared output, so many recipients count as one item: each
    /// of them costs less.
    static let uncheckedLimit = 8
    static let recipientsPerItem = 16
    /// Recipients of an item between two looks at the clock.
    static let sliceCount = uncheckedLimit * recipientsPerItem

    /// The item that is next, by its index in the batch.
    private(set) var item = 0
    /// Of its recipients, the one that is next.
    private var recipient = 0
    /// What is left of the piece.
    private var leftCount = 0
    /// Recipients so far of outputs that the batch does not count (``OutputBatch/pushCount``).
    var sharedCount = 0
    /// The forms of the item that were needed so far.
    var forms: FramesByForm?

    /// Items of the piece since the clock was looked at, its recipients included.
    private var uncheckedCount = 0

    /// Begins a new piece: others have had their turn.
    mutating func beginPiece() {
        leftCount = Self.pieceCount
        uncheckedCount = 0
    }

    /// Before each item, and each slice of its recipients: ends the piece where it has taken long enough. The
    /// first items of a piece are always dealt out.
    /// - Parameter isOver: Whether the time of the piece is over; asked now and then.
    mutating func endPiece(if isOver: () -> Bool) {
        uncheckedCount += 1
        guard uncheckedCount > Self.uncheckedLimit else { return }
        uncheckedCount = 1
        if isOver() { leftCount = 0 }
    }

    var isPieceOver: Bool { leftCount <= 0 }

    /// The next batch is next.
    mutating func beginBatch() {
        item = 0
        recipient = 0
        sharedCount = 0
    }

    /// Whether all items of a batch were dealt out.
    func isBehind(_ batch: OutputBatch) -> Bool { item >= batch.items.count }

    /// Whether some recipients of an item were served, and others not.
    func hasBegun(_ item: Int) -> Bool { item == self.item && recipient > 0 }

    /// Moves behind an item for one session.
    mutating func nextItem() {
        leftCount -= 1
        item += 1
    }

    /// Moves behind recipients of an item: all that are left of them, of a slice, or of the piece.
    /// - Parameters:
    ///   - count: All recipients of the item.
    ///   - haveOwn: Each gets a message of its own, which counts as an item.
    /// - Returns: Their indexes.
    mutating func nextRecipients(of count: Int, haveOwn: Bool = false) -> Range<Int> {
        let end = min(count, recipient + min(leftCount, haveOwn ? Self.uncheckedLimit : Self.sliceCount))
        defer {
            // An item of no recipients counts, too: there may be many.
            leftCount -= max(1, end - recipient)
            uncheckedCount += (end - recipient) / (haveOwn ? 1 : Self.recipientsPerItem)
            recipient = end == count ? 0 : end
            if end == count { item += 1 }
        }
        return recipient..<end
    }
}
