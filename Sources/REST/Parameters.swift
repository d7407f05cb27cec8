import PandoBytes
import PandoHTTP
import PandoTree

/// Published limits of the REST interface (rest §4, §13), and our own.
package enum RESTLimits {
    /// The longest a read may take, and how long it may without `timeout` (§4).
    package static let timeout: Duration = .seconds(15 * 60)
    /// Bytes of one read's answer, and of one write (§13).
    package static let readByteCount = 256 << 20
    package static let writeByteCount = 256 << 20
    /// Bytes of the first event of a stream (§8.2).
    package static let streamByteCount = 512 << 20
    /// A write is estimated to take a second for so many bytes that it brings and that it replaces: `large`,
    /// which is the limit of who names none, lets the largest write through that there is, and no larger
    /// removal.
    package static let writtenBytesPerSecond = writeByteCount / 60
    /// Up to here an answer is made whole and has a Content-Length; a longer one is sent in chunks (§13).
    package static let wholeAnswerByteCount = 1 << 20
    /// Shorter answers are not compressed: what is saved is less than a packet (§3).
    package static let compressedByteCount = 1 << 10
    /// Up to here an answer is compressed whole, and has a Content-Length: what takes a millisecond. A longer
    /// one is compressed while it is sent.
    package static let wholeCompressedByteCount = 64 << 10
    /// Bytes of one piece of a longer answer: what is written at once.
    package static let pieceByteCount = 64 << 10
    /// Characters of a JSONP callback (§3.3).
    package static let callbackByteCount = 128
}

/// `writeSizeLimit=`: how long a write may be expected to take (rest §4).
package enum WriteSizeLimit: String, Equatable, Sendable, CaseIterable {
    case tiny, small, medium, large, unlimited

    /// nil for no parameter.
    init?(_ text: String?) throws(RESTError) {
        guard let text else { return nil }
        guard let limit = WriteSizeLimit(rawValue: text) else { throw .writeSizeLimitMalformed }
        self = limit
    }

    /// Seconds that the write is estimated against; nil for as long as it takes.
    private var seconds: Int? {
        switch self {
        case .tiny: 1
        case .small: 10
        case .medium: 30
        case .large: 60
        case .unlimited: nil
        }
    }

    /// Bytes, brought and replaced, of a write that is estimated to take no longer; nil for any number
    /// (``RESTLimits/writtenBytesPerSecond``).
    package var byteCount: Int? { seconds.map { $0 * RESTLimits.writtenBytesPerSecond } }
}

/// Reads `<n>ms`, `<n>s` or `<n>min` (rest §4).
func parseTimeout(_ text: String?) throws(RESTError) -> Duration {
    guard let text else { return RESTLimits.timeout }
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    // Seven digits of milliseconds are more than the maximum already, and cannot overflow.
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

/// How an answer is to look (rest §3, §4).
package struct AnswerForm: Equatable, Sendable {
    package enum Print: Equatable, Sendable {
        case compact, pretty
        /// 204 and no body in place of 200.
        case silent
    }

    package var print = Print.compact
    /// `format=export`: priorities, no arrays.
    package var isExport = false
    package var isShallow = false
    /// The function a JSONP answer calls; ASCII of ``RESTLimits/callbackByteCount`` at most.
    package var callback: String?
    /// The name of the file an answer is to be saved as, without what could end or escape it.
    package var downloadName: String?

    /// Nothing but the value, on one line or pretty.
    var isPlain: Bool { print != .silent && callback == nil && downloadName == nil }

    package init() {}

    init(_ head: RequestHead, _ parameters: QueryString, _ method: RESTRequest.Method) throws(RESTError) {
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
            callback = name
        }
        downloadName = parameters["download"].flatMap(Self.fileName)
    }

    /// `[A-Za-z0-9_$.\[\]]{1,128}` (§3.3).
    private static func isCallback(_ name: String) -> Bool {
        (1...RESTLimits.callbackByteCount).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
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
    private static func fileName(_ name: String) -> String? {
        let kept = String(
            String.UnicodeScalarView(
                name.unicodeScalars.filter { scalar in
                    switch scalar.value {
                    case 0..<0x20, 0x7F..<0xA0, 0x22, 0x27, 0x2F, 0x5C: false
                    default: true
                    }
                }))
        return kept.isEmpty ? nil : kept
    }
}
