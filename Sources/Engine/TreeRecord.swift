import PandoBytes
import PandoTree

// A tree in parts of bounded size, as checkpoints contain it. Read in order, the parts make the same tree.
//
//  tree      path, 0, node                     a leaf
//            path, 1, then (key, node)…        more children of the object there, in key order, after those before;
//                                              to the end of the record
//            path, 2, node                     the priority of the object there, after all of its children
//
//  node      0 | 1                             false, true
//            2 zigzag varint                   an integer
//            3 double (8)
//            4 length, text
//            5 count, then (key, node)…        an object, its children in key order
//            6 node node                       a priority, and the node that has it
//
//  path, key: length and text. Lengths and counts are varints.

/// The largest record in bytes, unless it is a single leaf. A writer needs so much memory in addition to the
/// tree.
package let treeRecordByteLimit = 1 << 20

/// The records of a tree, made one at a time from a snapshot. An empty tree has none. Only one record is in
/// memory.
///
/// It resumes by the keys where it stopped, so any time may pass between two records: a response waits until
/// its client has read.
package struct TreeRecords: Sendable {
    /// An object that is being written.
    private struct Frame {
        let path: Path
        let children: Children
        let priority: Priority?
        /// The last child that is in a record.
        var last: Key?

        init(_ node: Node, at path: Path) {
            self.path = path
            children = node.children
            priority = node.priority
        }
    }

    private let byteLimit: Int
    /// The size of the previous record.
    private var lastByteCount = Self.firstRoomByteCount
    /// A root without children.
    private var leaf: Node?
    /// Outermost first.
    private var frames: [Frame] = []

    /// - Parameter byteLimit: About the largest record, unless it is a single leaf.
    package init(of root: Node, byteLimit: Int = treeRecordByteLimit) {
        self.byteLimit = byteLimit
        if case .object = root.withoutPriority {
            frames = [Frame(root, at: .root)]
        } else if !root.isEmpty {
            leaf = root
        }
    }

    /// The next record.
    /// - Returns: Nil after the last one.
    /// - Complexity: O(record + depth × log n). A child that does not fit is printed again with more
    ///   capacity, or in parts, which costs about a third more.
    package mutating func next() -> EngineRecord? {
        if let leaf = leaf.take() {
            var payload = Self.head(.root, .node)
            payload.append(leaf)
            return EngineRecord(kind: .tree, payload: payload)
        }
        while let top = frames.indices.last {
            var payload = Self.head(frames[top].path, .children)
            let firstChild = payload.count
            let tooLarge = fill(&payload, from: top)
            if payload.count > firstChild { return EngineRecord(kind: .tree, payload: payload) }
            guard let (key, child) = tooLarge else {
                let frame = frames.removeLast()
                guard let priority = frame.priority else { continue }
                var payload = Self.head(frame.path, .priority)
                payload.append(priority.node)
                return EngineRecord(kind: .tree, payload: payload)
            }
            // The child does not fit even alone. If it is an object, it is written in parts.
            frames[top].last = key
            if case .object = child.withoutPriority {
                frames.append(Frame(child, at: frames[top].path.appending(key)))
                continue
            }
            payload.append(counted: key)
            payload.append(child)
            return EngineRecord(kind: .tree, payload: payload)
        }
        return nil
    }

    /// Appends as many children of the frame as fit.
    /// - Returns: The first child that does not fit; nil when all are written.
    private mutating func fill(_ payload: inout [UInt8], from top: Int) -> (Key, Node)? {
        let children = frames[top].children
        var last = frames[top].last
        // The capacity grows from that of the previous record by factors of four, so that a small tree does
        // not reserve the capacity of a large one.
        var limit = max(4 * payload.count, lastByteCount)
        var tooLarge: (Key, Node)?
        repeat {
            limit = min(byteLimit, limit)
            payload.append(atMost: max(0, limit - payload.count)) { writer in
                tooLarge = writer.append(children, after: &last)
            }
            limit *= 4
        } while tooLarge != nil && limit < 4 * byteLimit
        frames[top].last = last
        lastByteCount = max(Self.firstRoomByteCount, payload.count)
        return tooLarge
    }

    private static let firstRoomByteCount = 4 << 10

    private static func head(_ path: Path, _ part: PartKind) -> [UInt8] {
        var payload: [UInt8] = []
        payload.append(counted: path)
        payload.append(part.rawValue)
        return payload
    }
}

enum PartKind: UInt8 {
    case node = 0
    case children = 1
    case priority = 2
}

enum NodeTag {
    static let no: UInt8 = 0
    static let yes: UInt8 = 1
    static let integer: UInt8 = 2
    static let double: UInt8 = 3
    static let text: UInt8 = 4
    static let object: UInt8 = 5
    static let priority: UInt8 = 6
}

extension ByteWriter {
    /// Appends the children after the key `last` as far as they fit, and sets `last` to the last one of
    /// them.
    /// - Returns: The first child that does not fit; nil when all do.
    fileprivate mutating func append(_ children: Children, after last: inout Key?) -> (Key, Node)? {
        var tooLarge: (Key, Node)?
        let first = last
        var isPastFirst = first == nil
        children.forEachPage(from: first) { page in
            for index in page.indices {
                if !isPastFirst, let first, page[index].key <= first { continue }
                isPastFirst = true
                let start = count
                append(counted: page[index].key)
                append(page[index].node)
                if isOverrun {
                    truncate(to: start)
                    tooLarge = (page[index].key, page[index].node)
                    return false
                }
                last = page[index].key
            }
            return true
        }
        return tooLarge
    }

    /// Stops when the capacity is used up. Recursion as deep as paths may be.
    fileprivate mutating func append(_ node: borrowing Node) {
        switch node {
        case .empty: preconditionFailure("no record holds an empty node")
        case .boolean(let value): append(value ? NodeTag.yes : NodeTag.no)
        case .integer(let value):
            append(NodeTag.integer)
            append(varint: UInt64(bitPattern: value &<< 1 ^ value &>> 63))
        case .double(let value):
            append(NodeTag.double)
            append(littleEndian: value.bitPattern)
        case .string(let text):
            append(NodeTag.text)
            text.withBytes {
                append(varint: UInt64($0.count))
                // `UInt8` has no padding: every byte of the span is initialised.
                append(unsafe $0.bytes)
            }
        case .object(let children):
            append(NodeTag.object)
            append(varint: UInt64(children.count))
            children.forEachPage { page in
                for index in page.indices {
                    append(counted: page[index].key)
                    append(page[index].node)
                    if isOverrun { return false }
                }
                return true
            }
        case .prioritized(let box):
            append(NodeTag.priority)
            append(box.priority.node)
            append(box.node)
        }
    }
}

extension [UInt8] {
    /// Appends a leaf or a priority.
    fileprivate mutating func append(_ leaf: Node) {
        var byteCount = 32
        if case .string(let text) = leaf { byteCount += text.utf8Count }
        var isWhole = false
        while !isWhole {
            let start = count
            append(atMost: byteCount) { writer in
                writer.append(leaf)
                isWhole = !writer.isOverrun
            }
            if !isWhole { removeSubrange(start...) }
            byteCount *= 4
        }
    }
}

// MARK: - Reading

/// The content of one record.
enum TreePart {
    case node(Path, Node)
    case children(Path, ContiguousArray<Children.Entry>)
    case priority(Path, Priority)

    init(reading payload: RawSpan) throws(UnreadableRecord) {
        self = try EngineRecord.read(payload) { cursor throws(UnreadableRecord) in
            let path = try cursor.readPath()
            guard path.count <= Limits.pathDepth, !path.namesPriority else {
                throw UnreadableRecord(reason: "no path before byte \(cursor.offset): \(path)")
            }
            return try cursor.readPart(at: path)
        }
    }
}

extension EngineRecord {
    /// A tree record for display: the path, and its node, some of its children, or its priority.
    /// - Throws: For a payload that cannot be read.
    package static func treePart(reading payload: RawSpan) throws(UnreadableRecord) -> Change {
        switch try TreePart(reading: payload) {
        case .node(let path, let node): Change(path: path, node: node)
        case .children(let path, let entries):
            Change(path: path, node: .children(Children(ascending: entries)))
        case .priority(let path, let priority):
            Change(path: path.appending(Path.priorityKey), node: priority.node)
        }
    }
}

extension ByteCursor {
    /// Reads the content of a record after its path.
    mutating func readPart(at path: Path) throws(UnreadableRecord) -> TreePart {
        switch PartKind(rawValue: try readByte()) {
        case .node: return .node(path, try readNode(depth: path.count))
        case .children:
            var entries: ContiguousArray<Children.Entry> = []
            while !isAtEnd { try readChild(into: &entries, depth: path.count) }
            return .children(path, entries)
        case .priority: return .priority(path, try readPriority())
        case nil: throw UnreadableRecord(reason: "unknown part at byte \(offset)")
        }
    }

    fileprivate mutating func readPriority() throws(UnreadableRecord) -> Priority {
        let start = offset
        // A priority has no children: anything deeper is refused before it is read.
        guard let priority = Priority(try readNode(depth: Limits.pathDepth, mayHavePriority: false)) else {
            throw UnreadableRecord(reason: "no priority at byte \(start)")
        }
        return priority
    }

    /// Recursion as deep as paths may be.
    mutating func readNode(
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
            guard let claimed = try? readVarint(), claimed > 0, claimed <= UInt64(remaining) else {
                throw ended()
            }
            var entries: ContiguousArray<Children.Entry> = []
            entries.reserveCapacity(min(Int(claimed), remaining / 3))
            for _ in 0..<claimed { try readChild(into: &entries, depth: depth) }
            return .children(Children(adopting: entries))
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
        guard let range = try? readCounted() else { throw ended() }
        guard let key = legalKey(range) else {
            throw UnreadableRecord(reason: "no key before byte \(offset)")
        }
        if !entries.isEmpty, entries[entries.count - 1].key >= key {
            throw UnreadableRecord(reason: "keys out of order before byte \(offset)")
        }
        entries.append(Children.Entry(key: key, node: try readNode(depth: depth + 1)))
    }

    private mutating func readText() throws(UnreadableRecord) -> Text {
        guard let range = try? readCounted() else { throw ended() }
        return repairedText(range)
    }
}
