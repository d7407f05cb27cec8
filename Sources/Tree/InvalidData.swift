import PandoBytes

/// Why well-formed JSON cannot be stored (realtime §8). The write is refused; the connection stays open.
package enum InvalidData: Error, Equatable, Sendable {
    /// A key is empty, longer than ``Limits/keyByteCount``, or holds a control character or one of
    /// `.` `$` `#` `[` `]` `/`. Its beginning (``illegalKey(_:)``).
    case key(String)
    /// A path or the data below it has more than ``Limits/pathDepth`` segments.
    case tooDeep
    /// A string leaf is over ``Limits/stringByteCount``.
    case stringTooLong
    /// `.priority` is neither null, a string, a finite number nor a server value.
    case priority
    /// `.value` is an array or object.
    case value
    /// `.sv` names no server value.
    case serverValue
    /// A number is beyond the range of a double.
    case numberOutOfRange
    /// A `\u` escape is half of a surrogate pair.
    case loneSurrogate
    /// A merge holds a path and one of its ancestors.
    case ancestorConflict(String)
    /// A merge's paths have more than ``Limits/mergeKeyCount`` keys.
    case tooManyPaths
    /// A write has more nodes than ``Limits/nodeCount(writeByteLimit:)``.
    case tooManyNodes
    /// A merge's value, or a query, is not an object; a field has the wrong type or range.
    case notAnObject
    /// A path begins with `.info`, or has another segment that begins with `.` where none is allowed (§13.1).
    case reservedPath
    /// A query object that is not valid (§7.1).
    case query(String)

    /// Bytes of an illegal key that are quoted.
    private static let quotedByteCount = 64

    /// ``key(_:)`` with the beginning of the key. O(1), however long the key is.
    package static func illegalKey(_ key: Text) -> InvalidData {
        .key(key.prefix(byteCount: quotedByteCount).string)
    }

    /// One English sentence for the response's `d`.
    package var message: String {
        switch self {
        case .key(let key):
            "Invalid key \"\(key)\": keys must be 1 to \(Limits.keyByteCount) bytes and can't contain \".\", \"#\", \"$\", \"/\", \"[\", \"]\" or control characters"
        case .tooDeep: "Path is deeper than \(Limits.pathDepth) levels"
        case .stringTooLong: "String is longer than \(Limits.stringByteCount) bytes"
        case .priority: "Invalid priority: it must be null, a number or a string"
        case .value: "Invalid .value: it must be null, a boolean, a number or a string"
        case .serverValue: "Unknown server value"
        case .numberOutOfRange: "A number is out of range"
        case .loneSurrogate: "A string has an unpaired surrogate"
        case .ancestorConflict(let path): "Path \"\(path)\" is an ancestor of another path in the same update"
        case .tooManyPaths: "Too many paths in one update: make several smaller ones"
        case .tooManyNodes:
            "Data to write exceeds the maximum size that can be modified with a single request."
        case .notAnObject: "An object is expected"
        case .reservedPath: "Reserved path"
        case .query(let reason): "Invalid query: \(reason)"
        }
    }
}
