import PandoBytes

/// JSON to ``Draft``, straight from bytes: no dictionaries in between (wire-protocol §8.2, §10).
///
/// Objects are gathered on one stack of entries; an object's own are cut off its top when it closes, sorted if they
/// did not arrive in order, and become its page. Data that cannot be stored is noted in `reader.invalidData`.
package struct DraftParser {
    package var reader: JSONReader
    /// Entries of all objects that are still open, oldest first.
    private var entries: ContiguousArray<Children.Entry> = []
    /// The keys from the draft's root to the value at hand.
    private var keys: [Key] = []
    private var placeholders: [Draft.Placeholder] = []
    private var depth = 0

    package init(_ reader: JSONReader) {
        self.reader = reader
    }

    /// Reads one value. The reader has moved behind it, and may hold an ``InvalidData``: then the draft is void.
    package mutating func readDraft() throws(MalformedJSON) -> Draft {
        placeholders.removeAll()
        depth = 0
        let node = try readNode(nesting: 0)
        return Draft(node, placeholders: placeholders, depth: depth)
    }

    private mutating func readNode(nesting: Int) throws(MalformedJSON) -> Node {
        guard nesting < Limits.jsonDepth else { throw .tooDeep(byteOffset: reader.cursor.offset) }
        switch reader.peek() {
        case UInt8(ascii: "{"): return try readObject(nesting: nesting)
        case UInt8(ascii: "["): return try readArray(nesting: nesting)
        default: return try readLeaf()
        }
    }

    private mutating func readLeaf() throws(MalformedJSON) -> Node {
        depth = max(depth, keys.count)
        switch reader.peek() {
        case UInt8(ascii: "\""):
            let text = try reader.readString()
            if text.utf8Count > Limits.stringByteCount { reader.note(.stringTooLong) }
            return .string(text)
        case UInt8(ascii: "t"):
            try reader.expect(literal: "true")
            return .boolean(true)
        case UInt8(ascii: "f"):
            try reader.expect(literal: "false")
            return .boolean(false)
        case UInt8(ascii: "n"):
            try reader.expect(literal: "null")
            return .empty
        default:
            return try reader.readNumber()
        }
    }

    // MARK: Objects

    /// What an object said with its `.` members.
    private struct Special {
        var priority: Priority?
        var value: Node?
        /// `.sv`: the object itself is a placeholder.
        var serverValue: ServerValue?
        /// `.priority` is a placeholder.
        var priorityServerValue: ServerValue?
    }

    private mutating func readObject(nesting: Int) throws(MalformedJSON) -> Node {
        let firstEntry = entries.count
        let firstPlaceholder = placeholders.count
        var special = Special()
        var isAscending = true
        try reader.expect(UInt8(ascii: "{"))
        if !reader.take(UInt8(ascii: "}")) {
            repeat {
                let name = try reader.readString()
                try reader.expect(UInt8(ascii: ":"))
                if name.utf8Count > 0, name.utf8[0] == UInt8(ascii: ".") {
                    try readSpecial(name, into: &special, nesting: nesting)
                    continue
                }
                if !Key.isLegal(name.utf8) { reader.note(.key(String(name.string.prefix(64)))) }
                let key = Key(unchecked: name)
                if isAscending, entries.count > firstEntry {
                    isAscending = Key.compare(entries[entries.count - 1].key, key) < 0
                }
                try readChild(key, nesting: nesting)
            } while reader.take(UInt8(ascii: ","))
            try reader.expect(UInt8(ascii: "}"))
        }
        let children = closeChildren(firstEntry, isAscending, hasPlaceholders: placeholders.count > firstPlaceholder)
        return finish(special, children, firstPlaceholder)
    }

    /// Reads the value of one child onto the stack of entries; `.empty` too, until the object is closed.
    private mutating func readChild(_ key: Key, nesting: Int) throws(MalformedJSON) {
        keys.append(key)
        let node = try readNode(nesting: nesting + 1)
        keys.removeLast()
        entries.append(Children.Entry(key: key, node: node))
    }

    /// Cuts an object's entries off the stack: sorted, pruned, and of members with one name the last, as every JSON
    /// parser of our clients has it.
    private mutating func closeChildren(_ first: Int, _ isAscending: Bool, hasPlaceholders: Bool) -> Children {
        defer { entries.removeSubrange(first...) }
        if isAscending {
            let own = entries[first...]
            return own.contains(where: \.node.isEmpty)
                ? Children(ascending: ContiguousArray(own.lazy.filter { !$0.node.isEmpty })) : Children(ascending: own)
        }
        let order = (first..<entries.count).sorted { left, right in
            let order = Key.compare(entries[left].key, entries[right].key)
            return order != 0 ? order < 0 : left < right
        }
        var own: ContiguousArray<Children.Entry> = []
        own.reserveCapacity(order.count)
        for index in order {
            if let last = own.last, last.key == entries[index].key {
                own.removeLast()
                // Whose placeholder it is that must go is not worth knowing: no client writes a name twice.
                if hasPlaceholders { reader.note(.key(last.key.string)) }
            }
            own.append(entries[index])
        }
        own.removeAll(where: \.node.isEmpty)
        return Children(ascending: own)
    }

    private mutating func finish(_ special: Special, _ children: Children, _ firstPlaceholder: Int) -> Node {
        var node = Node.children(children)
        if special.value != nil || special.serverValue != nil {
            // `.value` wins over children (§8.2), so their placeholders go with them.
            placeholders.removeSubrange(firstPlaceholder...)
        }
        if let value = special.value { node = value }
        if let serverValue = special.serverValue {
            node = .integer(0)
            placeholders.append(.init(target: Target(Path(keys)), value: serverValue))
        }
        guard !node.isEmpty else { return .empty }
        if let serverValue = special.priorityServerValue {
            placeholders.append(.init(target: Target(Path(keys), isPriority: true), value: serverValue))
            return node.with(priority: .number(0))
        }
        return node.with(priority: special.priority)
    }

    // MARK: Members that begin with a dot

    private mutating func readSpecial(
        _ name: Text, into special: inout Special, nesting: Int
    ) throws(MalformedJSON) {
        switch name {
        case ".priority":
            switch try readScalar(nesting: nesting) {
            case .leaf(.empty):
                special.priority = nil
                special.priorityServerValue = nil
            case .leaf(let leaf):
                special.priority = Priority(leaf)
                if special.priority == nil { reader.note(.priority) }
            case .serverValue(let value): special.priorityServerValue = value
            case .structure: reader.note(.priority)
            }
        case ".value":
            switch try readScalar(nesting: nesting) {
            case .leaf(.empty): special.value = nil
            case .leaf(let leaf): special.value = leaf
            case .serverValue(let value): special.serverValue = value
            case .structure: reader.note(.value)
            }
        case ".sv":
            special.serverValue = try Self.readServerValue(&reader)
        default:
            reader.note(.key(String(name.string.prefix(64))))
            _ = try reader.skipValue(depth: nesting + 1)
        }
    }

    private enum Scalar {
        case leaf(Node), serverValue(ServerValue), structure
    }

    /// Reads what may stand behind `.priority` or `.value`: a leaf, null, or `{".sv": …}`.
    private mutating func readScalar(nesting: Int) throws(MalformedJSON) -> Scalar {
        let first = reader.peek()
        if first == UInt8(ascii: "[") {
            _ = try reader.skipValue(depth: nesting + 1)
            return .structure
        }
        guard first == UInt8(ascii: "{") else { return .leaf(try readLeaf()) }
        var found: ServerValue?
        var others = 0
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            guard name == ".sv" else {
                others += 1
                _ = try reader.skipValue(depth: nesting + 1)
                return
            }
            found = try Self.readServerValue(&reader)
        }
        guard let found, others == 0 else { return .structure }
        return .serverValue(found)
    }

    /// Reads what stands behind `.sv` (§10).
    private static func readServerValue(_ reader: inout JSONReader) throws(MalformedJSON) -> ServerValue? {
        switch reader.peek() {
        case UInt8(ascii: "\""):
            if try reader.readString() == "timestamp" { return .timestamp }
        case UInt8(ascii: "{"):
            var increment: Node?
            var others = 0
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                let first = reader.peek()
                if name == "increment", first == UInt8(ascii: "-") || (first >= 0x30 && first <= 0x39) {
                    increment = try reader.readNumber()
                } else {
                    others += 1
                    _ = try reader.skipValue()
                }
            }
            if let increment, others == 0 { return .increment(increment) }
        default:
            _ = try reader.skipValue()
        }
        reader.note(.serverValue)
        return nil
    }

    // MARK: Arrays

    /// An array is an object with the keys `0`, `1`, …; null elements are absent (§8.2).
    private mutating func readArray(nesting: Int) throws(MalformedJSON) -> Node {
        let firstEntry = entries.count
        try reader.expect(UInt8(ascii: "["))
        if !reader.take(UInt8(ascii: "]")) {
            var index = 0
            repeat {
                try readChild(Key(index: index), nesting: nesting)
                index += 1
            } while reader.take(UInt8(ascii: ","))
            try reader.expect(UInt8(ascii: "]"))
        }
        return .children(closeChildren(firstEntry, true, hasPlaceholders: false))
    }
}

extension Node {
    /// Reads a whole JSON text as data without server values: imports, journal records, tests.
    /// - Parameter pathDepth: Segments of the path where the data goes.
    /// - Throws: ``MalformedJSON`` or ``InvalidData``.
    package init(json bytes: RawSpan, at pathDepth: Int = 0) throws {
        self = try withCursor(over: bytes) { cursor in
            var parser = DraftParser(JSONReader(cursor))
            let draft = try parser.readDraft()
            try parser.reader.expectEnd()
            if let problem = parser.reader.invalidData { throw problem }
            guard pathDepth + draft.depth <= Limits.pathDepth else { throw InvalidData.tooDeep }
            guard draft.placeholders.isEmpty else { throw InvalidData.serverValue }
            return draft.node
        }
    }
}
