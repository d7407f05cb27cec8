import PandoBytes
import PandoTree

/// The limits of rules. They bound what an upload and an evaluation of rules can cost.
package enum RulesLimits {
    /// Bytes of the document: the documented ceiling (rules §1.2).
    package static let sourceByteCount = 262_144
    /// Keys from the root to the deepest node with rules: a path is no deeper, so nothing below could ever
    /// match. It bounds the recursion of everything that walks rules.
    package static let pathDepth = Limits.pathDepth
    /// Problems that are reported at once, so that the response stays small.
    package static let problemCount = 200
    /// The nesting of expressions in one rule (§1.2). It bounds the recursion of everything that visits one.
    package static let expressionDepth = 200
    /// Terms of all expressions of a document together (§1.2).
    package static let expressionNodeCount = 20_000
    /// UTF-8 bytes of a pattern (§9).
    package static let patternByteCount = 2048
    /// States of a pattern's automaton, repetitions written out (§9).
    package static let patternStateCount = 10_000
    /// States of all patterns of a document together; our own limit, which bounds the memory of rules to a few megabytes.
    package static let patternInstructionCount = 100_000
    /// Steps of one match of a pattern without a table: some 50 ms, reached by a text of 1 kB at the earliest. Our own
    /// limit, since clients choose the texts.
    package static let patternStepCount = 10_000_000
    /// UTF-8 bytes of a text that a rule computes: the limit of texts in data.
    package static let textByteCount = Limits.stringByteCount
    /// Steps of about a nanosecond for one read or write with all of its paths: some 100 ms, or two million evaluated
    /// rules. Our own limit, since one thread serves all clients of a database. A write of 16 MB, the most that clients
    /// send, stays below it with a few rules for each of its texts.
    package static let requestStepCount = 1 << 27
    /// Characters of a name that are quoted in a problem.
    static let quotedCharacterCount = 64
}

/// A position in a rules document, counted from 1.
package struct SourcePosition: Hashable, Sendable {
    /// Lines end with LF, CR LF or CR.
    package var line = 1
    /// In UTF-16 units, as editors count; a tab is one.
    package var column = 1

    package init(line: Int = 1, column: Int = 1) {
        self.line = line
        self.column = column
    }
}

extension SourcePosition: Comparable, CustomStringConvertible {
    package static func < (left: SourcePosition, right: SourcePosition) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }

    /// `line:column`, as problems begin.
    package var description: String { "\(line):\(column)" }
}

/// The bytes of a rules document as it was uploaded, with comments and white space.
///
/// Always true: valid UTF-8, at most ``RulesLimits/sourceByteCount`` bytes. ``Ruleset/init(loading:)`` checks the rest.
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
