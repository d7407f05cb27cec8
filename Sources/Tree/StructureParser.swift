import PandoBytes

/// Parses an array or object to a ``Draft``.
///
/// The children of all open objects are on one stack of entries. When an object ends, its own are moved off
/// the top, sorted if they are not in order, and become its page.
struct StructureParser {
    var reader: JSONReader
    /// The open arrays and objects, outermost first.
    private var frames: [Frame] = []
    /// The stack: their children read so far, in the same order.
    private var entries: ContiguousArray<Children.Entry> = []
    /// The current path below the draft's root: a key for each frame, or one less between a value and the
    /// next name.
    private var keys: [Key] = []
    private var placeholders: [Draft.Placeholder] = []
    /// The entries with placeholders, by their indexes in ``entries``, ascending, and the indexes of these
    /// placeholders.
    private var holders: [(entry: Int, places: Range<Int>)] = []
    private var depth = 0
    /// See ``DraftParser/droppedChildren``.
    private(set) var droppedChildren = false
    /// Of the ``DraftParser``, which sets it before each draft.
    var budget = NodeBudget(left: 0)

    init(_ cursor: ByteCursor) {
        reader = JSONReader(cursor)
    }

    /// Reads one value, as ``DraftParser/readDraft()`` does. The memory of the stacks is reused for the next
    /// draft.
    /// - Throws: ``MalformedJSON``.
    mutating func readDraft() throws(MalformedJSON) -> Draft {
        frames.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        keys.removeAll(keepingCapacity: true)
        placeholders.removeAll()
        holders.removeAll()
        depth = 0
        droppedChildren = false
        let node = try readNode()
        return Draft(node, placeholders: placeholders, depth: depth)
    }

    private mutating func charge(_ nodeCount: Int) throws(MalformedJSON) {
        try budget.charge(nodeCount, at: reader.cursor.offset)
    }

    /// Reads one value. A loop with a stack of its own, not recursion: the sender must not control the depth
    /// of the thread's stack.
    private mutating func readNode() throws(MalformedJSON) -> Node {
        while true {
            guard var node = try readLeafOrOpen() else { continue }
            // A value is complete, and perhaps arrays and objects around it.
            while true {
                if frames.isEmpty { return node }
                try add(node)
                if try readNextName() { break }
                node = try close()
            }
        }
    }

    /// Reads a leaf, or an array or object without children.
    /// - Returns: nil when an array or object was opened whose first child comes next.
    private mutating func readLeafOrOpen() throws(MalformedJSON) -> Node? {
        let first = reader.peek()
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else { return try readLeaf() }
        guard frames.count < Limits.jsonDepth else { throw .tooDeep(byteOffset: reader.cursor.offset) }
        reader.cursor.advance()
        let isArray = first == UInt8(ascii: "[")
        frames.append(
            Frame(isArray: isArray, firstEntry: entries.count, firstPlaceholder: placeholders.count))
        if isArray {
            if reader.consume(UInt8(ascii: "]")) { return try close() }
            keys.append(Key(index: 0))
            return nil
        }
        if reader.consume(UInt8(ascii: "}")) { return try close() }
        return try readName() ? nil : try close()
    }

    /// Adds the value of the last key to its parent.
    private mutating func add(_ node: Node) throws(MalformedJSON) {
        let top = frames.count - 1
        let key = keys.removeLast()
        if frames[top].isArray {
            frames[top].index += 1
            // In an array null is left out at once. In an object it may replace an earlier value of the same
            // name.
            if node.isEmpty { return }
        } else if frames[top].isAscending, entries.count > frames[top].firstEntry {
            frames[top].isAscending = Key.compare(entries[entries.count - 1].key, key) < 0
        }
        if node.isEmpty { frames[top].hasEmptyNodes = true }
        if placeholders.count > frames[top].placeholderCount {
            holders.append((entries.count, frames[top].placeholderCount..<placeholders.count))
            frames[top].placeholderCount = placeholders.count
        }
        try charge(1)
        entries.append(Children.Entry(key: key, node: node))
    }

    /// Moves to the next child.
    /// - Returns: false when the array or object has ended.
    private mutating func readNextName() throws(MalformedJSON) -> Bool {
        let top = frames.count - 1
        let isArray = frames[top].isArray
        guard reader.consume(UInt8(ascii: ",")) else {
            try reader.expect(isArray ? UInt8(ascii: "]") : UInt8(ascii: "}"))
            return false
        }
        guard isArray else { return try readName() }
        keys.append(Key(index: frames[top].index))
        return true
    }

    /// Reads members that begin with a dot, and then the name of the next child and its colon.
    /// - Returns: false when the object has ended.
    private mutating func readName() throws(MalformedJSON) -> Bool {
        repeat {
            if let key = reader.readPlainKey() {
                try reader.expect(UInt8(ascii: ":"))
                keys.append(key)
                return true
            }
            let name = try reader.readString()
            try reader.expect(UInt8(ascii: ":"))
            guard name.firstByte == UInt8(ascii: ".") else {
                if !Key.isLegal(name) { reader.note(.illegalKey(name)) }
                keys.append(Key(unchecked: name))
                return true
            }
            try readSpecial(name)
        } while reader.consume(UInt8(ascii: ","))
        try reader.expect(UInt8(ascii: "}"))
        return false
    }

    // MARK: Leaves

    private mutating func readLeaf() throws(MalformedJSON) -> Node {
        depth = max(depth, keys.count)
        return try reader.readStoredLeaf()
    }

    // MARK: Objects

    private struct Frame {
        let isArray: Bool
        let firstEntry: Int
        let firstPlaceholder: Int
        /// The number of placeholders after its last child.
        var placeholderCount: Int
        /// Of an array: the index of the current element.
        var index = 0
        /// Whether the object's entries are in strictly ascending key order.
        var isAscending = true
        /// Whether an entry is null: such entries are removed.
        var hasEmptyNodes = false
        var special = Special()

        init(isArray: Bool, firstEntry: Int, firstPlaceholder: Int) {
            self.isArray = isArray
            self.firstEntry = firstEntry
            self.firstPlaceholder = firstPlaceholder
            placeholderCount = firstPlaceholder
        }
    }

    /// The members of an object that begin with a dot; of two with the same name the last one.
    private struct Special {
        /// `.priority`.
        var priority = Scalar.leaf(.empty)
        /// `.value`.
        var value = Scalar.leaf(.empty)
        /// `.sv`: the object itself is a placeholder.
        var serverValue: ServerValue?
    }

    /// The innermost array or object as a node.
    private mutating func close() throws(MalformedJSON) -> Node {
        let frame = frames.removeLast()
        let children = closeChildren(of: frame)
        return frame.isArray ? .children(children) : try finish(frame, children)
    }

    /// Moves the entries of a frame off the stack: sorted, without null, and of members with the same name
    /// only the last one, as in the clients' JSON parsers.
    private mutating func closeChildren(of frame: Frame) -> Children {
        let first = frame.firstEntry
        if first == entries.count { return Children() }
        let firstHolder = (holders.lastIndex { $0.entry < first } ?? -1) + 1
        if !frame.isAscending {
            if firstHolder < holders.count { dropRepeatedPlaceholders(of: frame, holders[firstHolder...]) }
            sort(from: first)
            dropRepeated(from: first)
        }
        if firstHolder < holders.count { holders.removeSubrange(firstHolder...) }
        if frame.hasEmptyNodes {
            let kept = entries[first...].filter { !$0.node.isEmpty }
            entries.replaceSubrange(first..., with: kept)
        }
        return Children(taking: &entries, from: first)
    }

    /// By key; entries of one key keep their order.
    private mutating func sort(from first: Int) {
        guard entries.count - first > 24 else {
            // In place: most objects are small, and an entry is cheap to move and dear to copy.
            for index in (first + 1)..<entries.count {
                var place = index
                while place > first, Key.compare(entries[place - 1].key, entries[place].key) > 0 {
                    entries.swapAt(place - 1, place)
                    place -= 1
                }
            }
            return
        }
        let order = (first..<entries.count).sorted { left, right in
            let order = Key.compare(entries[left].key, entries[right].key)
            return order != 0 ? order < 0 : left < right
        }
        let sorted = order.map { entries[$0] }
        entries.replaceSubrange(first..., with: sorted)
    }

    /// Of the placeholders of members with one name keeps those of the last.
    private mutating func dropRepeatedPlaceholders(
        of frame: Frame, _ holders: ArraySlice<(entry: Int, places: Range<Int>)>
    ) {
        var last: [Key: Int] = [:]
        for index in frame.firstEntry..<entries.count { last[entries[index].key] = index }
        var kept: [Draft.Placeholder] = []
        for holder in holders where last[entries[holder.entry].key] == holder.entry {
            kept += placeholders[holder.places]
        }
        placeholders.replaceSubrange(frame.firstPlaceholder..., with: kept)
    }

    private mutating func dropRepeated(from first: Int) {
        var count = first
        for index in first..<entries.count {
            if count > first, entries[count - 1].key == entries[index].key { count -= 1 }
            if count < index { entries.swapAt(count, index) }
            count += 1
        }
        entries.removeSubrange(count...)
    }

    private mutating func finish(_ frame: Frame, _ children: Children) throws(MalformedJSON) -> Node {
        var node = Node.children(children)
        // `.value` has precedence over `.sv`, and both over children (§8.2), whose placeholders are removed
        // with them.
        let value: Scalar =
            if case .leaf(.empty) = frame.special.value, let serverValue = frame.special.serverValue {
                .serverValue(serverValue)
            } else {
                frame.special.value
            }
        switch value {
        case .leaf(.empty), .structure: break
        case .leaf(let leaf):
            droppedChildren = droppedChildren || !children.isEmpty
            placeholders.removeSubrange(frame.firstPlaceholder...)
            node = leaf
        case .serverValue(let serverValue):
            droppedChildren = droppedChildren || !children.isEmpty
            placeholders.removeSubrange(frame.firstPlaceholder...)
            try charge(keys.count)
            placeholders.append(.init(target: Target(Path(keys)), value: serverValue))
            depth = max(depth, keys.count)
            node = .integer(0)
        }
        guard !node.isEmpty else { return .empty }
        switch frame.special.priority {
        case .leaf(.empty): return node.with(priority: nil)
        case .leaf(let leaf):
            try charge(1)
            return node.with(priority: Priority(leaf))
        case .structure: return node
        case .serverValue(let serverValue):
            try charge(1 + keys.count)
            placeholders.append(.init(target: Target(Path(keys), isPriority: true), value: serverValue))
            return node.with(priority: .number(0))
        }
    }

    // MARK: Members that begin with a dot

    private mutating func readSpecial(_ name: Text) throws(MalformedJSON) {
        let top = frames.count - 1
        switch name {
        case ".priority":
            let priority = try readScalar()
            switch priority {
            case .leaf(.empty), .leaf(.integer), .leaf(.double), .leaf(.string), .serverValue: break
            case .leaf, .structure: reader.note(.priority)
            }
            frames[top].special.priority = priority
        case ".value":
            let value = try readScalar()
            if case .structure = value { reader.note(.value) }
            frames[top].special.value = value
        case ".sv":
            frames[top].special.serverValue = try Self.readServerValue(&reader, depth: frames.count)
        default:
            reader.note(.illegalKey(name))
            _ = try reader.skipValue(depth: frames.count)
        }
    }

    private enum Scalar {
        case leaf(Node), serverValue(ServerValue), structure
    }

    /// Reads the value of `.priority` or `.value`: a leaf, null, or `{".sv": …}`.
    private mutating func readScalar() throws(MalformedJSON) -> Scalar {
        let first = reader.peek()
        let depth = frames.count
        if first == UInt8(ascii: "[") {
            _ = try reader.skipValue(depth: depth)
            return .structure
        }
        guard first == UInt8(ascii: "{") else { return .leaf(try readLeaf()) }
        var found: ServerValue?
        var others = 0
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            guard name == ".sv" else {
                others += 1
                _ = try reader.skipValue(depth: depth + 1)
                return
            }
            found = try Self.readServerValue(&reader, depth: depth + 1)
        }
        guard let found, others == 0 else { return .structure }
        return .serverValue(found)
    }

    /// Reads the value of `.sv` (§10).
    /// - Returns: nil, with invalid data noted, when it is not a server value.
    private static func readServerValue(
        _ reader: inout JSONReader, depth: Int
    ) throws(MalformedJSON) -> ServerValue? {
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
                    _ = try reader.skipValue(depth: depth + 1)
                }
            }
            if let increment, others == 0 { return .increment(increment) }
        default:
            _ = try reader.skipValue(depth: depth)
        }
        reader.note(.serverValue)
        return nil
    }
}
