import PandoBytes
import PandoTree

// Messages that the server sends without a request (realtime §5). Paths have no leading slash; the root
// is empty.
//
//     {"t":"d","d":{"a":"d","b":{"p":"list/k","d":…          the head: the same for every listen that gets the value
//                                                  }}}       the tail of an untagged listen
//                                                  ,"t":5}}} the tail of a tagged one
//
// A head is encoded once for all listens; ``append(pushTail:)`` ends it for each tag.

extension [UInt8] {
    // MARK: Data, without the tail

    /// Appends the head of a push with the complete value of a location (§5.1). O(size).
    /// - Parameters:
    ///   - node: The value with its priority, or `.empty`.
    ///   - path: The location, absolute.
    package mutating func append(push node: Node, at path: Path) {
        append("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":")
        append(jsonPath: path.keys[...])
        append(",\"d\":")
        append(json: node)
    }

    /// Appends the head of a push of several values that changed at once (§5.2).
    /// - Parameters:
    ///   - entries: In the order in which they are sent. At least one: two SDKs ignore the message otherwise.
    ///     Their paths are absolute, and equal to `base` or below it: traps otherwise.
    ///   - base: The location of the listen, or one below it.
    package mutating func append(
        mergePush entries: some Sequence<(path: Path, node: Node)>, at base: Path
    ) {
        append("{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{\"p\":")
        append(jsonPath: base.keys[...])
        append(",\"d\":{")
        var isFirst = true
        for entry in entries {
            precondition(base.contains(entry.path), "a path of a merge is not below its base")
            if !isFirst { append(UInt8(ascii: ",")) }
            isFirst = false
            append(jsonPath: entry.path.keys[base.count...])
            append(UInt8(ascii: ":"))
            append(json: entry.node)
        }
        assert(!isFirst, "a merge without entries, which clients ignore")
        append(UInt8(ascii: "}"))
    }

    /// Appends the head of the first push of a listen that carried a compound hash (§5.3, §9.7).
    /// - Parameters:
    ///   - ranges: In range order; at least one.
    ///   - path: The location of the listen.
    package mutating func append(rangeMergePush ranges: [RangeMerge], at path: Path) {
        precondition(!ranges.isEmpty, "a range merge without ranges")
        append("{\"t\":\"d\",\"d\":{\"a\":\"rm\",\"b\":{\"p\":")
        append(jsonPath: path.keys[...])
        append(",\"d\":[")
        for (index, range) in ranges.enumerated() {
            if index > 0 { append(UInt8(ascii: ",")) }
            append(UInt8(ascii: "{"))
            if let start = range.start {
                append("\"s\":")
                append(rangeEnd: start)
                append(UInt8(ascii: ","))
            }
            if let end = range.end {
                append("\"e\":")
                append(rangeEnd: end)
                append(UInt8(ascii: ","))
            }
            append("\"m\":")
            append(json: range.node)
            append(UInt8(ascii: "}"))
        }
        append(UInt8(ascii: "]"))
    }

    /// Appends the end of a push.
    /// - Parameter tag: Of the listen; nil for a default listen. (Never `"t":null`: iOS and C++ take it for
    ///   another listen.)
    package mutating func append(pushTail tag: Int64?) {
        if let tag {
            append(",\"t\":")
            append(decimal: tag)
        }
        append("}}}")
    }

    // MARK: Complete messages

    /// Appends the message that a listen was revoked (§5.4).
    /// - Parameters:
    ///   - path: The location of the listen.
    ///   - queryText: The query of a tagged listen, as the client spelled it; nil for the default listen. One
    ///     query a message: from several, JavaScript makes the identifier of a listen that does not exist.
    package mutating func append(listenRevoked path: Path, queryText: Text? = nil) {
        append("{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":")
        append(jsonPath: path.keys[...])
        if let queryText {
            append(",\"q\":[")
            append(utf8: queryText)
            append("]")
        }
        append("}}}")
    }

    /// Appends the message that the credential was revoked or has expired (§5.5): the client reconnects with
    /// a new one.
    package mutating func append(authRevoked status: Status, reason: Text) {
        append("{\"t\":\"d\",\"d\":{\"a\":\"ac\",\"b\":{\"s\":\"")
        append(revocation: status, reason)
    }

    /// Appends the message that the App Check token was revoked or has expired (§5.5).
    package mutating func append(appCheckRevoked status: Status, reason: Text) {
        append("{\"t\":\"d\",\"d\":{\"a\":\"apc\",\"b\":{\"s\":\"")
        append(revocation: status, reason)
    }

    private mutating func append(revocation status: Status, _ reason: Text) {
        append(utf8: status.rawValue)
        append("\",\"d\":")
        append(json: reason)
        append("}}}")
    }

    // MARK: Paths

    /// Appends `"a/b"`, or `""` for no keys.
    private mutating func append(jsonPath keys: ArraySlice<Key>) {
        if keys.isEmpty { append("\"\"") }
        for (index, key) in keys.enumerated() {
            // Each key is written as a JSON string, with its escapes; then a slash replaces the two quotes
            // between keys.
            if index > 0 { removeLast() }
            let opening = count
            append(jsonName: key)
            if index > 0 { self[opening] = UInt8(ascii: "/") }
        }
    }

    /// Appends the end of a range as clients write it: the root is a slash (§9.6).
    private mutating func append(rangeEnd path: Path) {
        if path.isRoot { append("\"/\"") } else { append(jsonPath: path.keys[...]) }
    }
}
