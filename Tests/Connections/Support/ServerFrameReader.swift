import PandoWebSocket

/// Reads the frames that a server has written, as a client does, and says them in short text: `{"t":"c",…}`
/// for a text frame, `ping`, `pong abc`, `close 1000`.
final class ServerFrameReader {
    private var reader: MessageReader
    /// The text frames so far.
    private(set) var texts: [String] = []

    /// - Parameter inflates: The client has agreed on permessage-deflate.
    init(inflates: Bool = false) {
        reader = MessageReader(
            role: .client, messageByteLimit: 1 << 24, checksText: true,
            inflater: inflates ? try? SharedCompression().sharedInflater() : nil)
    }

    /// Takes bytes, and says what they complete.
    func read(_ new: [UInt8]) -> [String] {
        var found: [String] = []
        var window = new
        var span = window.mutableSpan
        var bytes = unsafe span.mutableBytes
        var offset = 0
        do {
            while let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload):
                    let content = reader.withBytes(of: payload, in: bytes) { text(Array(copying: $0)) }
                    texts.append(content)
                    found.append(shortened(content, to: 200))
                case .binary: found.append("binary")
                case .compressed: found.append("compressed")
                case .ping: found.append("ping")
                case .pong(let payload):
                    let content = reader.withBytes(of: payload, in: bytes) { text(Array(copying: $0)) }
                    found.append(content.isEmpty ? "pong" : "pong \(content)")
                case .close(let code, _):
                    found.append("close \(code.map { "\($0.rawValue)" } ?? "without code")")
                }
            }
        } catch {
            found.append("violation \(error)")
        }
        return found
    }
}

extension [UInt8] {
    init(copying bytes: RawSpan) {
        self = []
        append(bytes)
    }

    /// A masked frame of a client.
    static func clientFrame(
        _ opcode: Opcode = .text, _ payload: some Sequence<UInt8>, isFinal: Bool = true
    ) -> [UInt8] {
        var frame: [UInt8] = []
        frame.append(
            frame: opcode, payload: Array(payload).rawSpan, isFinal: isFinal, maskingKey: 0x1234_5678)
        return frame
    }

    /// A masked text frame of a client.
    static func clientText(_ text: String) -> [UInt8] { clientFrame(.text, text.utf8) }
}
