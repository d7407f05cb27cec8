import PandoBytes
import PandoTree

/// The bytes of a rules document as it was uploaded, with comments and white space.
///
/// Always true: valid UTF-8, at most ``RulesLimits/sourceByteCount`` bytes. ``Ruleset/init(loading:)`` checks
/// the rest.
package struct RulesSource: Equatable, Sendable {
    /// The response to a GET of the rules (§1.1).
    package let bytes: [UInt8]

    /// - Throws: ``InvalidRules`` for too many bytes, or invalid UTF-8.
    package init(_ bytes: [UInt8]) throws(InvalidRules) {
        guard bytes.count <= RulesLimits.sourceByteCount else {
            let limit = RulesLimits.sourceByteCount
            throw InvalidRules(
                SourcePosition(), "Rules are too large: \(bytes.count) bytes, at most \(limit).")
        }
        self.bytes = bytes
        guard isValidUTF8(bytes.rawSpan) else {
            throw InvalidRules(position(at: Self.firstInvalidOffset(bytes)), "Invalid UTF-8.")
        }
    }

    /// The line and column of a byte. O(offset).
    package func position(at offset: Int) -> SourcePosition {
        var ruler = SourceRuler(self)
        return ruler.position(at: offset)
    }

    /// The offset of the first invalid character.
    private static func firstInvalidOffset(_ bytes: [UInt8]) -> Int {
        var validator = UTF8Validator()
        var start = 0
        for index in bytes.indices {
            if validator.isAtBoundary { start = index }
            guard unsafe validator.accept(bytes.span.extracting(index...index).bytes) else { return start }
        }
        return start
    }
}

/// Converts ascending offsets to positions, in one pass over the source.
struct SourceRuler {
    private let source: RulesSource
    private var offset = 0
    private var place = SourcePosition()

    init(_ source: RulesSource) {
        self.source = source
    }

    /// - Parameter target: Not less than the one before. Beyond the end it counts as the end.
    mutating func position(at target: Int) -> SourcePosition {
        let bytes = source.bytes
        while offset < target, offset < bytes.count {
            let byte = bytes[offset]
            offset += 1
            switch byte {
            case 0x0A: place = SourcePosition(line: place.line + 1)
            case 0x0D:
                // The LF of a CR LF ends the line.
                let isHalf = offset < bytes.count && bytes[offset] == 0x0A
                if isHalf { place.column += 1 } else { place = SourcePosition(line: place.line + 1) }
            case 0x80...0xBF: break
            default: place.column += byte >= 0xF0 ? 2 : 1
            }
        }
        return place
    }
}
