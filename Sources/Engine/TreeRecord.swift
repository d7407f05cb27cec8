import PandoBytes
import PandoTree

// A tree as it stands, in parts of bounded size: what a checkpoint holds of a namespace. Read back in order, they make
// the same tree.
//
//  tree      path, 0, node                     a leaf
//            path, 1, then (key, node)…        more children of the object there, in key order, behind all it has;
//                                              to the end of the record
//            path, 2, node                     the priority of the object there: behind all of its children
//
//  node      0 | 1                             false, true
//            2 zigzag varint                   an integer
//            3 double (8)
//            4 length, text
//            5 count, then (key, node)…        an object, its children in key order
//            6 node node                       a priority, and what carries it
//
//  path, key: length and text. Lengths and counts are varints.

/// Bytes of a record that is no single leaf: what the writer keeps in memory over the tree itself.
package let treeRecordByteLimit = 1 << 20

/// Cuts a tree into records. Nothing is said of an empty one.
package struct TreeRecordWriter<Failure: Error> {
    private let byteLimit: Int
    private let body: (LogRecord) throws(Failure) -> Void
    private var payload: [UInt8] = []
    /// Where the first child of the record begins.
    private var firstChild = 0

    /// - Parameter body: Gets each record, in order.
    package init(byteLimit: Int = treeRecordByteLimit, _ body: @escaping (LogRecord) throws(Failure) -> Void) {
        self.byteLimit = byteLimit
        self.body = body
    }

    /// - Complexity: O(tree). What turns out not to fit is printed again in parts, at most once a level.
    package mutating func write(_ root: Node) throws(Failure) {
        if !root.isEmpty { try write(root, at: .root) }
    }

    private mutating func write(_ node: Node, at path: Path) throws(Failure) {
        guard case .object(let children) = node.withoutPriority else {
            begin(path, .node)
            payload.append(node)
            return try flush()
        }
        begin(path, .children)
        try children.forEach { key, child throws(Failure) in
            if !append(key, child) {
                // Not with the others; then alone, or, if it has parts, in parts.
                if payload.count > firstChild {
                    try flush()
                    begin(path, .children)
                }
                if !append(key, child) {
                    if case .object = child.withoutPriority {
                        try write(child, at: path.appending(key))
                    } else {
                        payload.append(counted: key.string)
                        payload.append(child)
                        try flush()
                    }
                    begin(path, .children)
                }
            }
            return true
        }
        if payload.count > firstChild { try flush() }
        if let priority = node.priority {
            begin(path, .priority)
            payload.append(priority.node)
            try flush()
        }
    }

    private mutating func begin(_ path: Path, _ part: PartKind) {
        payload.removeAll(keepingCapacity: true)
        payload.append(countedPath: path.keys[...])
        payload.append(part.rawValue)
        firstChild = payload.count
    }

    private mutating func flush() throws(Failure) {
        try body(LogRecord(kind: .tree, payload: payload))
    }

    /// - Returns: false when the record would be too large; then it is as it was.
    private mutating func append(_ key: Key, _ child: Node) -> Bool {
        let start = payload.count
        payload.append(counted: key.string)
        if payload.append(child, upTo: byteLimit) { return true }
        payload.removeSubrange(start...)
        return false
    }
}

private enum PartKind: UInt8 {
    case node = 0
    case children = 1
    case priority = 2
}

private enum NodeTag {
    static let no: UInt8 = 0
    static let yes: UInt8 = 1
    static let integer: UInt8 = 2
    static let double: UInt8 = 3
    static let text: UInt8 = 4
    static let object: UInt8 = 5
    static let priority: UInt8 = 6
}

extension [UInt8] {
    fileprivate mutating func append(_ node: Node) {
        _ = append(node, upTo: .max)
    }

    /// - Returns: false as soon as the array has more than `byteLimit` bytes; the node is then half there.
    fileprivate mutating func append(_ node: Node, upTo byteLimit: Int) -> Bool {
        switch node {
        case .empty: preconditionFailure("nothing is not written down")
        case .boolean(let value): append(value ? NodeTag.yes : NodeTag.no)
        case .integer(let value):
            append(NodeTag.integer)
            append(varint: UInt64(bitPattern: value &<< 1 ^ value &>> 63))
        case .double(let value):
            append(NodeTag.double)
            append(littleEndian: value.bitPattern)
        case .string(let text):
            append(NodeTag.text)
            append(counted: text.string)
        case .object(let children):
            append(NodeTag.object)
            append(varint: UInt64(children.count))
            return children.forEach { key, child in
                append(counted: key.string)
                return append(child, upTo: byteLimit)
            }
        case .prioritized(let box):
            append(NodeTag.priority)
            append(box.priority.node)
            return append(box.node, upTo: byteLimit)
        }
        return count <= byteLimit
    }
}

// MARK: - Reading back

/// What one record says.
enum TreePart {
    case node(Path, Node)
    case children(Path, ContiguousArray<Children.Entry>)
    case priority(Path, Priority)

    init(reading payload: RawSpan) throws(UnreadableRecord) {
        self = try LogRecord.read(payload) { cursor throws(UnreadableRecord) in
            let path = try cursor.readPath()
            guard path.count <= Limits.pathDepth, !path.namesPriority else {
                throw UnreadableRecord(reason: "no path before byte \(cursor.offset): \(path)")
            }
            switch PartKind(rawValue: try cursor.readByte()) {
            case .node: return .node(path, try cursor.readNode(depth: path.count))
            case .children:
                var entries: ContiguousArray<Children.Entry> = []
                while !cursor.isAtEnd { try cursor.readChild(into: &entries, depth: path.count) }
                return .children(path, entries)
            case .priority: return .priority(path, try cursor.readPriority())
            case nil: throw UnreadableRecord(reason: "unknown part at byte \(cursor.offset)")
            }
        }
    }
}

extension LogRecord {
    /// What a tree record says, for people: the path, and its node, a part of its children, or its priority.
    package static func treePart(reading payload: RawSpan) throws(UnreadableRecord) -> Change {
        switch try TreePart(reading: payload) {
        case .node(let path, let node): Change(path: path, node: node)
        case .children(let path, let entries): Change(path: path, node: .children(Children(ascending: entries)))
        case .priority(let path, let priority):
            Change(path: path.appending(Path.priorityKey), node: priority.node)
        }
    }
}

extension ByteCursor {
    fileprivate mutating func readPriority() throws(UnreadableRecord) -> Priority {
        let start = offset
        // A priority has no parts: whatever claims to be deeper is refused before it is read.
        guard let priority = Priority(try readNode(depth: Limits.pathDepth, mayHavePriority: false)) else {
            throw UnreadableRecord(reason: "no priority at byte \(start)")
        }
        return priority
    }

    /// Recursion as deep as paths may be.
    fileprivate mutating func readNode(
        depth: Int, mayHavePriority: Bool = true
    ) throws(UnreadableRecord) -> Node {
        switch try readByte() {
        case NodeTag.no: return .boolean(false)
        case NodeTag.yes: return .boolean(true)
        case NodeTag.integer:
            guard let bits = try? readVarint() else { throw ended() }
            return .integer(Int64(bitPattern: bits &>> 1) ^ -Int64(bitPattern: bits & 1))
        case NodeTag.double:
            let value = Double(bitPattern: try readInteger())
            guard value.isFinite else { throw UnreadableRecord(reason: "no number before byte \(offset)") }
            return .number(value)
        case NodeTag.text: return .string(try readText())
        case NodeTag.object:
            guard let claimed = try? readVarint(), claimed > 0, claimed <= UInt64(remaining) else { throw ended() }
            var entries: ContiguousArray<Children.Entry> = []
            entries.reserveCapacity(min(Int(claimed), remaining / 3))
            for _ in 0..<claimed { try readChild(into: &entries, depth: depth) }
            return .children(Children(taking: &entries, from: 0))
        case NodeTag.priority where mayHavePriority:
            let priority = try readPriority()
            return try readNode(depth: depth, mayHavePriority: false).with(priority: priority)
        case let tag: throw UnreadableRecord(reason: "unknown node \(tag) before byte \(offset)")
        }
    }

    fileprivate mutating func readChild(
        into entries: inout ContiguousArray<Children.Entry>, depth: Int
    ) throws(UnreadableRecord) {
        guard depth < Limits.pathDepth else { throw UnreadableRecord(reason: "too deep at byte \(offset)") }
        let text = try readText()
        guard Key.isLegal(text) else { throw UnreadableRecord(reason: "no key before byte \(offset)") }
        let key = Key(unchecked: text)
        if let last = entries.last, Key.compare(last.key, key) >= 0 {
            throw UnreadableRecord(reason: "keys out of order before byte \(offset)")
        }
        entries.append(Children.Entry(key: key, node: try readNode(depth: depth + 1)))
    }

    private mutating func readText() throws(UnreadableRecord) -> Text {
        guard let range = try? readCounted() else { throw ended() }
        return Text(string(range))
    }
}
