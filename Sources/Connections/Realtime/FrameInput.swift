import PandoBytes
import PandoTime
import PandoWebSocket
import PandoWire

/// What a WebSocket has received and not used yet: frames and messages that are not complete, and bytes that
/// may not be read yet.
struct FrameInput {
    private static let smallReadByteCount = 16 << 10

    var reader: MessageReader
    var reassembler: Reassembler
    private var ahead = InputAhead()
    /// The frames of an event are being read.
    var isReading = false
    /// What follows is read when others have had their turn.
    private(set) var isYielding = false
    /// A message does not fit in one small read.
    private var readsLargePieces = false
    private var rate = InputRate()
    /// Bytes of a message that is not complete, or not read.
    private(set) var unfinishedByteCount = 0

    init(_ reader: MessageReader, _ reassembler: Reassembler) {
        self.reader = reader
        self.reassembler = reassembler
    }

    /// A reader and a reassembler that take nothing, in place of others.
    static var emptyReader: MessageReader {
        MessageReader(role: .server, messageByteLimit: 0, checksText: false)
    }
    static var emptyReassembler: Reassembler { Reassembler(chunkLimit: 0, messageByteLimit: 0) }

    /// Bytes of the socket's next reads: as many small requests as a ``RequestWindow`` takes, about. What is
    /// not read stays in the socket. A message that does not fit in one read is read in large pieces.
    var readByteLimit: Int { readsLargePieces ? .max : Self.smallReadByteCount }

    /// A message is not complete.
    var hasUnfinishedMessage: Bool { messageByteCount > 0 }

    private var messageByteCount: Int { reader.ownedByteCount + reassembler.byteCount }

    /// - Parameter session: Bytes of messages that the session holds.
    mutating func countUnfinished(inSession session: Int) {
        let messageByteCount = messageByteCount + session
        let byteCount = messageByteCount + ahead.byteCount
        guard byteCount != unfinishedByteCount else { return }
        readsLargePieces = messageByteCount >= Self.smallReadByteCount / 2
        unfinishedByteCount = byteCount
    }

    // MARK: Turns

    /// The rest is read when others have had their turn.
    mutating func yield() { isYielding = true }

    /// - Returns: Whether it has waited for that.
    mutating func turnCame() -> Bool { exchange(&isYielding, with: false) }

    // MARK: Bytes that wait

    /// Nothing waits.
    var isEmpty: Bool { ahead.byteCount == 0 }

    /// Keeps bytes that may not be read yet.
    mutating func keep(_ bytes: RawSpan) { ahead.append(bytes) }

    /// Takes out the bytes that wait, to be read from the offset on.
    mutating func beginWaiting() -> (bytes: [UInt8], offset: Int) { ahead.begin() ?? ([], 0) }

    /// - Parameter offset: What is behind it was not read, and is kept.
    mutating func endWaiting(_ bytes: consuming [UInt8], from offset: Int) { ahead.end(bytes, from: offset) }

    /// What was not read will not be.
    mutating func drop() {
        ahead = InputAhead()
        reader = Self.emptyReader
        reassembler = Self.emptyReassembler
        unfinishedByteCount = 0
    }

    // MARK: Its rate

    mutating func noteReceived(_ byteCount: Int) { rate.receivedByteCount += byteCount }

    /// Whether a message comes too slowly that is not complete.
    /// - Parameter mayExpect: The client may send.
    mutating func isTooSlow(mayExpect: Bool, _ context: inout ConnectionContext) -> Bool {
        rate.isTooSlow(whileExpected: mayExpect && hasUnfinishedMessage, &context)
    }
}
