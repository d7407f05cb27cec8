import PandoBytes
import PandoHTTP
import PandoTree

/// The location that a request's path names (rest §1.1, §10).
package enum RESTLocation: Equatable, Sendable {
    /// A node; with `.priority` at the end only its priority.
    case data(Target)
    /// `/.settings/rules.json`.
    case rules
    /// Another `/.settings/<name>.json`; nil where there is no setting of this name.
    case settings(Setting?)
    /// `/.inspect/<name>.json`, or without the suffix for what is not JSON; nil where there is no page of
    /// this name.
    case inspect(InspectionPage?)

    /// Reads the path of the request target, undecoded. O(bytes).
    /// - Throws: ``RESTError/notREST``, ``RESTError/invalidPath`` or ``RESTError/pathTooDeep``.
    init(path bytes: ArraySlice<UInt8>) throws(RESTError) {
        let hasSuffix = bytes.span.hasSuffix(".json")
        let stem = hasSuffix ? bytes.dropLast(5) : bytes
        // Only a path that begins with a dot or an escape can be a special location.
        let first = stem.first { $0 != UInt8(ascii: "/") }
        guard first == UInt8(ascii: ".") || first == UInt8(ascii: "%") else {
            guard hasSuffix else { throw .notREST }
            self = .data(try Self.target(stem))
            return
        }
        // One segment more than a path may have; the rest stays in one piece. So the array has a bounded
        // length.
        let segments = stem.split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2)
        switch segments.first.map(Self.decoded) {
        case ".settings" where hasSuffix:
            let name = try Self.name(segments.dropFirst())
            self = name == Self.rulesName ? .rules : .settings(Setting(rawValue: name))
        case ".inspect":
            guard hasSuffix || Self.pages.contains(segments.dropFirst().map(Self.decoded)) else {
                throw .notREST
            }
            self = .inspect(InspectionPage(try Self.name(segments.dropFirst()), isJSON: hasSuffix))
        default:
            guard hasSuffix else { throw .notREST }
            self = .data(try Self.target(stem))
        }
    }

    /// The node into which a file is uploaded by `/<path>/.upload` (§10). Nil for another path.
    /// - Throws: ``RESTError/invalidPath`` or ``RESTError/pathTooDeep``.
    init?(uploadPath bytes: ArraySlice<UInt8>) throws(RESTError) {
        guard bytes.span.hasSuffix("/.upload") else { return nil }
        self = .data(try Self.target(bytes.dropLast(7)))
    }

    private static let rulesName = "rules"

    /// The paths below `/.inspect` without a suffix: the backup, and the emulator's page of coverage,
    /// which Pando does not implement.
    private static let pages: [[Text?]] = [["coverage"], ["backup"]]

    /// Whether each `%` is followed by two hex digits. (Query strings are read leniently. A path is not,
    /// since it names a location to write to.)
    private static func isWellEscaped(_ segment: ArraySlice<UInt8>) -> Bool {
        var rest = segment
        while let percent = rest.firstIndex(of: UInt8(ascii: "%")) {
            let digits = rest[(percent + 1)...].prefix(2)
            guard digits.count == 2, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
                return false
            }
            rest = rest[(percent + 3)...]
        }
        return true
    }

    /// The decoded segment; nil when an escape is malformed or stands for a slash.
    private static func decodedBytes(_ segment: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        // A segment without escapes contains no slash.
        guard segment.contains(UInt8(ascii: "%")) else { return segment }
        guard isWellEscaped(segment) else { return nil }
        let bytes = decodePercentBytes(segment, plusIsSpace: false)
        return bytes.contains(UInt8(ascii: "/")) ? nil : bytes[...]
    }

    /// The decoded text of the segment; nil when it is invalid.
    private static func decoded(_ segment: ArraySlice<UInt8>) -> Text? {
        guard let bytes = decodedBytes(segment), unsafe isValidUTF8(bytes.span.bytes) else { return nil }
        return Text(utf8: bytes.span)
    }

    /// The name without its suffix, and with a slash where the path has one; empty for one that is not ASCII,
    /// which no page and no setting has.
    private static func name(_ segments: some Collection<ArraySlice<UInt8>>) throws(RESTError) -> String {
        let names = segments.compactMap(decoded)
        guard !names.isEmpty, names.count == segments.count else { throw .invalidPath }
        let strings = names.compactMap(\.asciiString)
        return strings.count == names.count ? strings.joined(separator: "/") : ""
    }

    private static func target(_ path: ArraySlice<UInt8>) throws(RESTError) -> Target {
        let slash = UInt8(ascii: "/")
        var keys: [Key] = []
        // Most paths have no more.
        keys.reserveCapacity(8)
        var isPriority = false
        var rest = path
        // Several slashes count as one, and slashes at the ends are ignored.
        while let start = rest.firstIndex(where: { $0 != slash }) {
            let end = rest[start...].firstIndex(of: slash) ?? rest.endIndex
            let segment = rest[start..<end]
            rest = rest[end...]
            // Invalid: a key below a priority, or an encoded slash.
            guard !isPriority, let bytes = decodedBytes(segment), unsafe isValidUTF8(bytes.span.bytes) else {
                throw .invalidPath
            }
            if bytes.first == UInt8(ascii: "."), bytes.elementsEqual(".priority".utf8) {
                isPriority = true
                continue
            }
            guard keys.count < Limits.pathDepth else { throw .pathTooDeep }
            guard let key = Key(legal: bytes.span) else { throw .invalidPath }
            keys.append(key)
        }
        return Target(Path(keys), isPriority: isPriority)
    }
}
