import PandoBytes
import PandoHTTP
import PandoREST

/// The body of one request as it comes in: framed and bounded, and still compressed where it is (rest
/// §1.5).
package struct RequestContent {
    package enum Refusal: Error {
        /// It is framed badly: nothing of the request can be trusted.
        case http(HTTPError)
        /// The request is understood, and gets its answer in the order of rest §9.
        case request(RESTError)
    }

    private var reader: BodyReader
    /// The bytes are compressed.
    package let isGzip: Bool
    /// What came so far, as it travels.
    package private(set) var bytes = ByteBlocks()

    /// - Parameter byteLimit: Most bytes, as they travel.
    /// - Throws: ``Refusal`` where the head announces a body that is too long, or in a coding other than
    ///   gzip.
    package init(of head: RequestHead, byteLimit: Int) throws(Refusal) {
        let isGzip = try Self.isGzip(head)
        let reader = try Self.reader(head, byteLimit)
        self.isGzip = isGzip
        self.reader = reader
    }

    private static func reader(_ head: RequestHead, _ byteLimit: Int) throws(Refusal) -> BodyReader {
        do throws(HTTPError) {
            return try BodyReader(head.framing, byteLimit: UInt64(byteLimit))
        } catch {
            throw Refusal(error)
        }
    }

    private static func isGzip(_ head: RequestHead) throws(Refusal) -> Bool {
        let codings = head.fields.values(of: "content-encoding")
        let coding = codings.map(\.string).joined(separator: ", ")
        switch codings.count == 1 ? codings[0].asciiString?.lowercased() : codings.isEmpty ? "" : nil {
        case "", "identity": return false
        case "gzip", "x-gzip": return true
        default: throw .request(.unsupportedCoding(coding))
        }
    }

    /// Takes bytes of `piece` from `offset` on, and moves `offset` behind them.
    /// - Returns: true when the body is complete.
    /// - Throws: ``Refusal``; where the body ends is not known then.
    package mutating func append(_ piece: RawSpan, from offset: inout Int) throws(Refusal) -> Bool {
        while let event = try next(piece, from: &offset) {
            switch event {
            case .data(let range): bytes.append(piece.extracting(range))
            case .end: return true
            }
        }
        return false
    }

    private mutating func next(_ piece: RawSpan, from offset: inout Int) throws(Refusal) -> BodyReader.Event?
    {
        do throws(HTTPError) {
            return try reader.next(piece, from: &offset)
        } catch {
            throw Refusal(error)
        }
    }

    /// Gives the bytes away.
    package mutating func takeBytes() -> ByteBlocks {
        exchange(&bytes, with: ByteBlocks())
    }
}

extension RequestContent.Refusal {
    fileprivate init(_ error: HTTPError) {
        self = error == .contentTooLarge ? .request(.payloadTooLarge) : .http(error)
    }
}
