import PandoBytes

/// An array or object to ``Draft``.
///
/// Objects are gathered on one stack of entries; an object's own are cut off its top when it closes, sorted
/// if they did not arrive in order, and become its page.
struct StructureParser {
    var reader: JSONReader
    /// The arrays and objects that are still open, outermost first.
    private var frames: [Frame] = []
    /// Their children so far, in the same order.
    private var entries: ContiguousArray<Children.Entry> = []
    /// The keys from the draft's root to the value at hand: one for each frame, less one between a value and
    /// the next.
    private var keys: [Key] = []
    private var placeholders: [Draft.Placeholder] = []
    /// The children so far that hold placeholders, by their places among ``entries``, and which ones.
    /// Ascending.
    private var holders: [(entry: Int, places: Range<Int>)] = []
    private var depth = 0
    /// See ``DraftParser/droppedChildren``.
    private(set) var droppedChildren = false
    /// What it is lent by who has it read.
    var budget = NodeBudget(left: 0)

    init(_ cursor: ByteCursor) {
        reader = JSONReader(cursor)
    }

    /// Reads one value, as ``DraftParser/readDraft()`` does. What it gathers in is kept for the next.
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

    /// A loop with a stack of its own, not recursion: how deep the thread's stack goes is not for the sender
    /// to say.
    private mutating func readNode() throws(MalformedJSON) -> Node {
        while true {
            guard var node = try readLeafOrOpen() else { continue }
            // A value is complete, and with it whatever closes here.
            while true {
                if frames.isEmpty { return node }
                try add(node)
                if try readNextName() { break }
                node = try close()
            }
        }
    }

    /// Reads a leaf, an empty array or object, or one without children. Nil when one has been opened instead,
    /// and its first child comes next.
    private mutating func readLeafOrOpen() throws(MalformedJSON) -> Node? {
        let first = reader.peek()
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else { return try readLeaf() }
        guard frames.count < Limits.jsonDepth else { throw .tooDeep(byteOffset: reader.cursor.offset) }
        reader.cursor.advance()
        let isArray = first == UInt8(ascii: "[")
        frames.append(
            Frame(isArray: isArray, firstEntry: entries.count, firstPlaceholder: placeholders.count))
        if isArray {
            if reader.take(UInt8(ascii: "]")) { return try close() }
            keys.append(Key(index: 0))
            return nil
        }
        if reader.take(UInt8(ascii: "}")) { return try close() }
        return try readName() ? nil : try close()
    }

    /// Puts the value of the last key under its parent.
    private mutating func add(_ node: Node) throws(MalformedJSON) {
        let top = frames.count - 1
        let key = keys.removeLast()
        if frames[top].isArray {
            frames[top].index += 1
            // Only an object can hold two values of one name, of which null may be the last.
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

    /// Moves to the next child. False when the array or object has ended instead.
    private mutating func readNextName() throws(MalformedJSON) -> Bool {
        let top = frames.count - 1
        let isArray = frames[top].isArray
        guard reader.take(UInt8(ascii: ",")) else {
            try reader.expect(isArray ? UInt8(ascii: "]") : UInt8(ascii: "}"))
            return false
        }
        guard isArray else { return try readName() }
        keys.append(Key(index: frames[top].index))
        return true
    }

    /// Reads names until that of a child, and its colon. False when the object has ended instead.
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
                if !Key.isLegal(name) { reader.note(.key(String(name.string.prefix(64)))) }
                keys.append(Key(unchecked: name))
                return true
            }
            try readSpecial(name)
        } while reader.take(UInt8(ascii: ","))
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
        /// Placeholders when its last child was there.
        var placeholderCount: Int
        /// The element at hand, of an array.
        var index = 0
        /// True while an object's names came in key order.
        var isAscending = true
        /// True when a name stands for null: such entries are pruned.
        var hasEmptyNodes = false
        var special = Special()

        init(isArray: Bool, firstEntry: Int, firstPlaceholder: Int) {
            self.isArray = isArray
            self.firstEntry = firstEntry
            self.firstPlaceholder = firstPlaceholder
            placeholderCount = firstPlaceholder
        }
    }

    /// What an object said with its `.` members; of two with one name the last.
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

    /// Cuts the entries of a frame off the stack: sorted, pruned, and of members with one name the last, as
    /// every JSON parser of our clients has it.
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
        // A `.value` wins over everything but the priority (§8.2), then `.sv`; the children's placeholders go
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
            reader.note(.key(String(name.string.prefix(64))))
            _ = try reader.skipValue(depth: frames.count)
        }
    }

    private enum Scalar {
        case leaf(Node), serverValue(ServerValue), structure
    }

    /// Reads what may stand behind `.priority` or `.value`: a leaf, null, or `{".sv": …}`.
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

    /// Reads what stands behind `.sv` (§10).
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
