import Logging
import Synchronization

/// Decides which messages of the log are left out because others like them came before. Messages are alike if
/// they differ in numbers only: a disk that fails each second says so a few times a minute, and then how
/// often it did.
///
/// A value; it keeps a bounded number of kinds of messages.
struct RepetitionLimiter {
    /// What becomes of a message.
    enum Decision: Equatable {
        /// - Parameter leftOut: Messages like it that were left out since the last one that passed.
        case passes(leftOut: Int)
        case isLeftOut
    }

    /// Messages of one kind that pass in one ``period``.
    static let burst = 5
    static let period: Duration = .seconds(60)
    /// Kinds that are remembered; beyond, the one that began first is forgotten.
    static let kindLimit = 128
    /// Bytes of a message that are compared.
    private static let comparedByteCount = 512

    private struct Kind {
        var began: ContinuousClock.Instant
        var passedCount = 0
        var leftOutCount = 0
    }

    private var kinds: [String: Kind] = [:]

    var count: Int { kinds.count }

    mutating func admit(_ message: String, at now: ContinuousClock.Instant) -> Decision {
        let shape = Self.shape(of: message)
        var kind = kinds[shape] ?? Kind(began: now)
        defer {
            kinds[shape] = kind
            if kinds.count > Self.kindLimit, let oldest = kinds.min(by: { $0.value.began < $1.value.began }) {
                kinds[oldest.key] = nil
            }
        }
        var leftOut = 0
        if now - kind.began >= Self.period {
            leftOut = kind.leftOutCount
            kind = Kind(began: now)
        }
        guard kind.passedCount < Self.burst else {
            kind.leftOutCount += 1
            return .isLeftOut
        }
        kind.passedCount += 1
        return .passes(leftOut: leftOut)
    }

    /// Digits of the shortest hexadecimal number that is recognised by its length:
    /// `journal-00000001-00000000000001af.log`.
    private static let hexadecimalDigitCount = 8

    /// The message with `#` in place of each number. A word of eight and more hexadecimal digits, with a
    /// decimal one among them, is a number, too.
    static func shape(of message: String) -> String {
        let bytes = Array(message.utf8.prefix(comparedByteCount))
        var shape: [UInt8] = []
        var offset = 0
        while offset < bytes.count {
            let word = bytes[offset...].prefix(while: isLetterOrDigit)
            let isNumber =
                word.count >= hexadecimalDigitCount && word.contains(where: isDecimalDigit)
                && word.allSatisfy {
                    isDecimalDigit($0) || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0 | 0x20
                }
            for byte in isNumber ? ArraySlice("0".utf8) : word {
                if !isDecimalDigit(byte) {
                    shape.append(byte)
                } else if shape.last != UInt8(ascii: "#") {
                    shape.append(UInt8(ascii: "#"))
                }
            }
            offset = word.endIndex
            if offset < bytes.count {
                shape.append(bytes[offset])
                offset += 1
            }
        }
        return String(decoding: shape, as: UTF8.self)
    }

    private static func isDecimalDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        isDecimalDigit(byte) || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
    }
}

/// Passes messages on to another handler, and leaves out warnings and errors that come again and again
/// (``RepetitionLimiter``). Messages at `info` and below pass, and so do critical ones.
struct LimitedLogHandler: LogHandler {
    /// Shared by all copies of a handler.
    private final class Shared: Sendable {
        let limiter = Mutex(RepetitionLimiter())
    }

    private var handler: any LogHandler
    private let shared = Shared()

    init(_ handler: any LogHandler) { self.handler = handler }

    var logLevel: Logger.Level {
        get { handler.logLevel }
        set { handler.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { handler.metadata }
        set { handler.metadata = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { handler[metadataKey: key] }
        set { handler[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        guard event.level > .info, event.level < .critical else { return handler.log(event: event) }
        let decision = shared.limiter.withLock { $0.admit("\(event.message)", at: .now) }
        switch decision {
        case .isLeftOut: return
        case .passes(leftOut: 0): handler.log(event: event)
        case .passes(let count):
            var event = event
            event.message = "\(event.message) (\(count) messages like this one were left out since the last)"
            handler.log(event: event)
        }
    }
}
