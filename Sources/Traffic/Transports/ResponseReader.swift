import PandoBytes
import PandoHTTP

/// Reads the HTTP responses of one connection, each whole: the bytes may be cut anywhere.
package struct ResponseReader {
    /// The longest body that is accepted.
    private static let bodyByteLimit: UInt64 = 256 << 20

    private enum Stage {
        case head(ResponseHeadReader)
        case body(ResponseHead, BodyReader)
    }

    private var stage = Stage.head(ResponseHeadReader())
    private var body: [UInt8] = []

    package init() {}

    /// Reads `bytes` from `offset` on, up to the end of a response.
    /// - Parameter offset: Moved behind the bytes that were read.
    /// - Returns: nil when the bytes are used up before.
    /// - Throws: ``HTTPError``; then the connection is of no more use.
    /// - Complexity: O(bytes).
    package mutating func next(
        _ bytes: RawSpan, from offset: inout Int
    ) throws(HTTPError) -> (head: ResponseHead, body: [UInt8])? {
        while true {
            switch stage {
            case .head(var reader):
                guard offset < bytes.byteCount else { return nil }
                guard let head = try reader.read(bytes, from: &offset) else {
                    stage = .head(reader)
                    return nil
                }
                stage = .body(head, try BodyReader(head.framing, byteLimit: Self.bodyByteLimit))
            case .body(let head, var reader):
                let event = try reader.next(bytes, from: &offset)
                stage = .body(head, reader)
                switch event {
                case nil: return nil
                case .data(let range)?: body.append(bytes.extracting(range))
                case .end?:
                    stage = .head(ResponseHeadReader())
                    return (head, exchange(&body, with: []))
                }
            }
        }
    }
}
