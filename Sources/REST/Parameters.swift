import PandoBytes
import PandoHTTP
import PandoTree

/// The published limits of the REST interface (rest §4, §13), and our own.
package enum RESTLimits {
    /// The longest `timeout` of a read, and the one without the parameter (§4).
    package static let timeout: Duration = .seconds(15 * 60)
    /// Bytes of the response to one read, and of one write (§13).
    package static let readByteCount = 256 << 20
    package static let writeByteCount = 256 << 20
    /// Bytes of the first event of a stream (§8.2).
    package static let streamByteCount = 512 << 20
    /// The estimated time of a write is one second for so many bytes that it writes and replaces. So `large`,
    /// which is the limit without the parameter, permits the largest possible write, and no larger removal.
    package static let writtenBytesPerSecond = writeByteCount / 60
    /// Bytes of text up to which a response that is not compressed has a Content-Length. A longer one is sent
    /// in chunks (§13).
    package static let wholeResponseByteCount = 1 << 20
    /// Bytes up to which a response is not compressed: it would save less than a packet (§3).
    package static let compressedByteCount = 1 << 10
    /// Bytes of one piece of a longer response, which is printed at once (in about a millisecond, see
    /// `PrintingBudget`). A response that is one piece is compressed as a whole, and has a Content-Length.
    package static let pieceByteCount = 64 << 10
    /// Bytes of the name of a JSONP callback (§3.3).
    package static let callbackByteCount = 128

    /// Bytes of text up to which a response has a Content-Length.
    static func contentLengthByteLimit(for context: ResponseContext) -> Int {
        context.mayBufferWhole && !context.acceptsGzip ? wholeResponseByteCount : pieceByteCount
    }
}

/// `writeSizeLimit=`: the longest estimated time of a write (rest §4).
package enum WriteSizeLimit: String, Equatable, Sendable, CaseIterable {
    case tiny, small, medium, large, unlimited

    /// Nil without the parameter.
    /// - Throws: ``RESTError/writeSizeLimitMalformed``.
    init?(_ text: Text?) throws(RESTError) {
        guard let text else { return nil }
        guard let limit = text.asciiString.flatMap(WriteSizeLimit.init) else {
            throw .writeSizeLimitMalformed
        }
        self = limit
    }

    /// The limit in seconds; nil for none.
    private var seconds: Int? {
        switch self {
        case .tiny: 1
        case .small: 10
        case .medium: 30
        case .large: 60
        case .unlimited: nil
        }
    }

    /// The limit in bytes that a write may write and replace (``RESTLimits/writtenBytesPerSecond``); nil for
    /// none.
    package var byteCount: Int? { seconds.map { $0 * RESTLimits.writtenBytesPerSecond } }
}

/// Reads `<n>ms`, `<n>s` or `<n>min` (rest §4).
/// - Throws: ``RESTError/timeoutMalformed``.
func parseTimeout(_ text: Text?) throws(RESTError) -> Duration {
    guard let text else { return RESTLimits.timeout }
    guard let text = text.asciiString else { throw .timeoutMalformed }
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    // Seven digits are enough for the maximum in milliseconds, and cannot overflow.
    guard let count = Int64(digits), digits.utf8.count <= 7 else { throw .timeoutMalformed }
    let timeout: Duration
    switch text.dropFirst(digits.count) {
    case "ms": timeout = .milliseconds(count)
    case "s": timeout = .seconds(count)
    case "min": timeout = .seconds(count * 60)
    default: throw .timeoutMalformed
    }
    guard timeout > .zero, timeout <= RESTLimits.timeout else { throw .timeoutMalformed }
    return timeout
}

/// The form of a response (rest §3, §4).
package struct ResponseForm: Equatable, Sendable {
    package enum Print: Equatable, Sendable {
        case compact, pretty
        /// 204 without a body, in place of 200.
        case silent
    }

    package var print = Print.compact
    /// `format=export`: priorities, no arrays.
    package var isExport = false
    package var isShallow = false
    /// The function that a JSONP response calls; ASCII, at most ``RESTLimits/callbackByteCount``.
    package var callback: String?
    /// The file name for a download, without characters that could end or escape it.
    package var downloadName: String?

    /// The response is only the value, on one line or pretty.
    var isPlain: Bool { print != .silent && callback == nil && downloadName == nil }

    package init() {}

    init(_ head: RequestHead, _ parameters: QueryString, _ method: RESTMethod) throws(RESTError) {
        switch parameters["print"] {
        case "pretty": print = .pretty
        case "silent": print = .silent
        default: print = .compact
        }
        guard method.isRead else { return }
        isExport = parameters["format"] == "export"
        isShallow = parameters["shallow"] == "true"
        if let name = parameters["callback"] {
            guard Self.isCallback(name) else { throw .callbackMalformed }
            callback = name.string
        }
        downloadName = parameters["download"].flatMap(Self.fileName)
    }

    /// `[A-Za-z0-9_$.\[\]]{1,128}` (§3.3).
    private static func isCallback(_ name: Text) -> Bool {
        (1...RESTLimits.callbackByteCount).contains(name.utf8Count)
            && name.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"),
                    UInt8(ascii: "."), UInt8(ascii: "["), UInt8(ascii: "]"):
                    true
                default: false
                }
            }
    }

    /// The name without quotes, control characters and path separators (§3.4); nil when nothing is left.
    private static func fileName(_ name: Text) -> String? {
        let kept = String(
            String.UnicodeScalarView(
                name.string.unicodeScalars.filter { scalar in
                    switch scalar.value {
                    case 0..<0x20, 0x7F..<0xA0, 0x22, 0x27, 0x2F, 0x5C: false
                    default: true
                    }
                }))
        return kept.isEmpty ? nil : kept
    }
}
