import PandoBytes
import PandoTree

// Prints a value for REST (rest §3), in pieces.
//
//     compact   {"a":[1,null,"x"],"b":{"c":true}}
//     pretty    {\n  "a" : [ 1, null, "x" ],\n  "b" : {\n    "c" : true\n  }\n}\n
//
// Arrays stay on one line, and do not indent their elements: the service uses Jackson's default pretty
// printer, as `print=pretty` of the public Hacker News database shows.

/// Prints a snapshot of a value piece by piece, so that only one piece of the text is in memory, or what
/// ``printToBuffer(_:)`` was asked for.
///
/// Printing is a plain recursion. To resume it, the printer walks down along the keys where it stopped, which
/// costs O(depth × log n) for each piece. (Depth is at most ``Limits/pathDepth``.)
package struct ValuePrinter: Sendable {
    package enum Root: Sendable {
        case node(Node)
        /// An object of these members in this order, where `.empty` is printed as null. No tree has such an
        /// object.
        case members([Member])
        /// Only prefix and suffix.
        case nothing
    }

    package struct Member: Sendable {
        package var name: Text
        package var node: Node

        package init(name: Text, node: Node) {
            self.name = name
            self.node = node
        }
    }

    private let root: Root
    private let form: JSONForm
    private let suffix: [UInt8]
    /// About the bytes of memory of the value, where it is not the tree's; else 0.
    private let ownedByteCount: Int
    /// Printed and not yet returned. May exceed a piece by one part of a text.
    private var buffer: [UInt8]
    /// Bytes of `buffer` that were returned.
    private var offset = 0
    /// About how many bytes of memory `buffer` takes: the most that it has held. (Its capacity depends on the
    /// allocator, and a simulation with the same seed must be the same run.)
    private var bufferByteCount = 0
    /// Everything was printed; a part of it may not have been returned (``isFinished``).
    private(set) var isComplete = false
    /// What printing has cost so far: bytes that were printed, and keys that were looked at to find out
    /// whether an object is printed as an array.
    private(set) var workCount = 0
    /// Printing stops between two tokens, or two parts of a text, once the buffer holds so many bytes.
    private var stopCount = 0
    /// Keys that may still be looked at before printing stops.
    private var keyBudget = 0
    /// Where printing stopped, innermost first; empty before the beginning and after the end.
    private var resumption: [Position] = []

    /// Keys that are looked at before others have their turn. An array of that many elements has twice as
    /// many bytes.
    private static let keyLimit = RESTLimits.pieceByteCount
    /// Bytes of a text that are printed at once; with escapes they may become six times as many.
    private static let textPartByteCount = 16 << 10
    /// Bytes of the buffer that are kept for further pieces.
    private static let keptByteCount = 4 * RESTLimits.pieceByteCount

    /// Where printing stopped in one value.
    private enum Position {
        /// In a text, before this byte.
        case text(offset: Int)
        /// In `.value` of a leaf.
        case leaf
        /// In the priority of a node.
        case priority
        /// Not printed yet: it is not known whether the keys from this one on are indexes.
        case keys(Key)
        case child(Child)
        /// In the member of ``Root/members(_:)`` with this index, or before it.
        case member(index: Int, isInside: Bool)
    }

    /// Where printing stopped in an array or object.
    private struct Child {
        enum Place { case before, inside, after }
        /// In relation to the child with this key.
        var place = Place.before
        /// Nil before the first child.
        var key: Key?
        var isArray: Bool
        /// Members that were printed; of an array the next element, which is less than the key's own index
        /// when there are holes before it.
        var index: Int
    }

    /// - Parameters:
    ///   - prefix: Printed before the value.
    ///   - suffix: Printed behind it; a pretty value then ends the line.
    ///   - ownedByteCount: About the bytes of memory of the value, where it is not the tree's; else 0.
    package init(
        _ root: Root, _ form: JSONForm, prefix: [UInt8] = [], suffix: [UInt8] = [], ownedByteCount: Int = 0
    ) {
        self.ownedByteCount = ownedByteCount
        self.root = root
        self.form = form
        self.suffix = suffix
        buffer = prefix
        bufferByteCount = prefix.count
    }

    /// Whether everything was returned.
    package var isFinished: Bool { isComplete && offset == buffer.count }

    /// The next piece.
    /// - Parameter byteLimit: The most bytes, at least one.
    /// - Returns: Nil when everything was returned. Only the last piece is shorter than `byteLimit`, and one
    ///   during which more than 65 536 keys of an array were looked at; that one may be empty.
    /// - Complexity: O(piece), plus O(depth × log n).
    package mutating func next(atMost byteLimit: Int = RESTLimits.pieceByteCount) -> [UInt8]? {
        precondition(byteLimit > 0)
        fill(to: byteLimit)
        assert(isComplete || keyBudget == 0 || bufferedByteCount >= byteLimit, "only the last is shorter")
        guard offset < buffer.count else { return isComplete ? nil : [] }
        if offset == 0, buffer.count <= byteLimit {
            return takeBuffer()
        }
        let end = min(offset + byteLimit, buffer.count)
        let piece = Array(buffer[offset..<end])
        offset = end
        if end == buffer.count { removeReturned() }
        return piece
    }

    /// About how many bytes of memory it holds alone: what is printed, members, and a value that is not the
    /// tree's. O(1).
    package var heldByteCount: Int {
        if case .members(let members) = root {
            bufferByteCount + members.count * Self.memberByteCount
        } else {
            bufferByteCount + ownedByteCount
        }
    }

    /// Bytes of a member with a short name and value, and of the write that it comes from.
    private static let memberByteCount = 128

    /// Bytes that were printed and not returned.
    var bufferedByteCount: Int { buffer.count - offset }

    /// Prints at least so many bytes more, or everything; less where many keys of an array were looked at.
    /// ``next(atMost:)`` and ``whole(atMost:)`` return them.
    /// - Complexity: O(`byteCount`), plus O(depth × log n).
    mutating func printToBuffer(_ byteCount: Int) { fill(to: bufferedByteCount + byteCount) }

    /// All of the rest, if it has at most `byteLimit` bytes and that is found out at once. Otherwise nil, and
    /// nothing is removed.
    /// - Complexity: O(min(text, limit)).
    package mutating func whole(atMost byteLimit: Int) -> [UInt8]? {
        fill(to: byteLimit + 1)
        guard isComplete, bufferedByteCount <= byteLimit else { return nil }
        let start = offset
        let bytes = takeBuffer()
        return start == 0 ? bytes : Array(bytes[start...])
    }

    /// Prints until the buffer holds so many bytes, or everything; less where many keys were looked at.
    private mutating func fill(to byteCount: Int) {
        guard !isComplete, bufferedByteCount < byteCount else { return }
        removeReturned()
        stopCount = byteCount
        keyBudget = Self.keyLimit
        buffer.reserveCapacity(min(byteCount, RESTLimits.pieceByteCount))
        let start = buffer.count
        while !isComplete, buffer.count < byteCount, keyBudget > 0 {
            guard printRoot() else { continue }
            buffer += suffix
            if form.isPretty { buffer.append(UInt8(ascii: "\n")) }
            isComplete = true
        }
        // Printing stops between characters, so none of these is split.
        if form.isScript { buffer.escapeLineSeparators(from: start) }
        workCount += buffer.count - start + Self.keyLimit - keyBudget
        bufferByteCount = max(bufferByteCount, buffer.count)
    }

    private mutating func takeBuffer() -> [UInt8] {
        (offset, bufferByteCount) = (0, 0)
        return exchange(&buffer, with: [])
    }

    /// Removes from the buffer what was returned, and gives up its memory if it was long.
    private mutating func removeReturned() {
        guard offset > 0 else { return }
        if bufferByteCount > Self.keptByteCount {
            buffer = Array(buffer[offset...])
            bufferByteCount = buffer.count
        } else {
            buffer.removeSubrange(..<offset)
        }
        offset = 0
    }
}

// Each function prints the rest of its part and returns true. When it stops before the end it returns false,
// and adds to `resumption` where that was.
extension ValuePrinter {
    private mutating func printRoot() -> Bool {
        switch root {
        case .node(let node):
            if form.isShallow, case .object(let children) = node.withoutPriority {
                return printObject(children, nil, indent: 0, isShallow: true)
            }
            return printNode(node, indent: 0)
        case .members(let members): return printMembers(members)
        case .nothing: return true
        }
    }

    private mutating func printNode(_ node: Node, indent: Int) -> Bool {
        switch node {
        case .object(let children):
            return printObject(children, nil, indent: indent)
        case .prioritized(let box):
            guard form.hasPriorities else { return printNode(box.node, indent: indent) }
            if case .object(let children) = box.node {
                return printObject(children, box.priority, indent: indent)
            }
            return printLeaf(box.node, box.priority, indent: indent)
        case .empty, .boolean, .integer, .double, .string:
            return printLeaf(node)
        }
    }

    private mutating func printLeaf(_ node: Node) -> Bool {
        if case .string(let text) = node { return printText(text) }
        buffer.append(json: node)
        return true
    }

    private mutating func printText(_ text: Text) -> Bool {
        var offset = 0
        if case .text(let resumed) = resumption.popLast() {
            offset = resumed
        } else if text.utf8Count <= Self.textPartByteCount {
            buffer.append(json: text)
            return true
        } else {
            buffer.append(UInt8(ascii: "\""))
        }
        while offset < text.utf8Count {
            if isFull { return stop(.text(offset: offset)) }
            offset = buffer.append(escaping: text, from: offset, atMost: Self.textPartByteCount)
        }
        buffer.append(UInt8(ascii: "\""))
        return true
    }

    /// Prints a leaf with its priority.
    private mutating func printLeaf(_ node: Node, _ priority: Priority, indent: Int) -> Bool {
        let position = resumption.popLast()
        if position == nil {
            buffer.append(UInt8(ascii: "{"))
            startMember(".value", indent: indent + 1, isFirst: true)
        }
        if case .priority = position {
        } else {
            guard printLeaf(node) else { return stop(.leaf) }
            startMember(".priority", indent: indent + 1, isFirst: false)
        }
        guard printLeaf(priority.node) else { return stop(.priority) }
        endObject(indent: indent)
        return true
    }

    private mutating func printObject(
        _ children: Children, _ priority: Priority?, indent: Int, isShallow: Bool = false
    ) -> Bool {
        guard let start = startObject(children, priority, indent: indent, isShallow: isShallow) else {
            return false
        }
        // The elements of an array stay on its line, so they have its indentation.
        let inner = start.isArray ? indent : indent + 1
        guard printChildren(children, from: start, indent: inner, isShallow: isShallow) else { return false }
        if start.isArray {
            buffer.append(form.isPretty ? " ]" : "]")
        } else {
            endObject(indent: indent)
        }
        return true
    }

    /// Prints what stands before the children, unless that is done.
    /// - Returns: Where the children begin, or go on; nil where printing stops before that.
    private mutating func startObject(
        _ children: Children, _ priority: Priority?, indent: Int, isShallow: Bool
    ) -> Child? {
        var firstKey: Key?
        switch resumption.popLast() {
        case .child(let child): return child
        case .priority: return printPriority(priority)
        case .keys(let key): firstKey = key
        case nil, .text, .leaf, .member: break
        }
        if form.hasArrays, priority == nil, !isShallow {
            guard let isArray = isArray(children, from: firstKey) else { return nil }
            if isArray {
                buffer.append(UInt8(ascii: "["))
                return Child(isArray: true, index: 0)
            }
        }
        buffer.append(UInt8(ascii: "{"))
        if priority != nil { startMember(".priority", indent: indent + 1, isFirst: true) }
        return printPriority(priority)
    }

    /// Prints the priority of an object.
    /// - Returns: Where the children begin; nil where printing stops before that.
    private mutating func printPriority(_ priority: Priority?) -> Child? {
        guard let priority else { return Child(isArray: false, index: 0) }
        guard printLeaf(priority.node) else {
            resumption.append(.priority)
            return nil
        }
        return Child(isArray: false, index: 1)
    }

    /// Whether the children are printed as an array (§3.1).
    /// - Parameter firstKey: Where the last look has stopped.
    /// - Returns: Nil where printing stops before that is known.
    private mutating func isArray(_ children: Children, from firstKey: Key?) -> Bool? {
        guard firstKey != nil || children.mayBeArray else { return false }
        var stopKey: Key?
        let areIndexes = children.forEach(from: firstKey) { key, _ in
            guard keyBudget > 0 else {
                stopKey = key
                return false
            }
            keyBudget -= 1
            return key.isIndex
        }
        guard let stopKey else { return areIndexes }
        resumption.append(.keys(stopKey))
        return nil
    }

    private mutating func printChildren(
        _ children: Children, from start: Child, indent: Int, isShallow: Bool
    ) -> Bool {
        let isArray = start.isArray
        var index = start.index
        var resumed: Child.Place? = start.place
        return children.forEach(from: start.key) { key, child in
            let place = resumed.take() ?? .before
            switch place {
            case .after: return true
            case .inside: break
            case .before where isArray:
                let own = Int(key.integer ?? 0)
                while index < own {
                    startElement(isFirst: index == 0)
                    buffer.append("null")
                    index += 1
                    if isFull { return stop(.before, key, isArray, index) }
                }
                startElement(isFirst: index == 0)
                index += 1
            case .before:
                startMember(named: key, indent: indent, isFirst: index == 0)
                index += 1
            }
            if isShallow {
                buffer.append("true")
            } else if !printNode(child, indent: indent) {
                return stop(.inside, key, isArray, index)
            }
            return isFull ? stop(.after, key, isArray, index) : true
        }
    }

    private mutating func printMembers(_ members: [Member]) -> Bool {
        var (start, isInside) = (0, false)
        if case .member(let index, let wasInside) = resumption.popLast() {
            (start, isInside) = (index, wasInside)
        } else {
            buffer.append(UInt8(ascii: "{"))
        }
        for index in start..<members.count {
            if !isInside { startMember(members[index].name, indent: 1, isFirst: index == 0) }
            isInside = false
            guard printNode(members[index].node, indent: 1) else {
                return stop(.member(index: index, isInside: true))
            }
            if isFull { return stop(.member(index: index + 1, isInside: false)) }
        }
        if members.isEmpty { buffer.append(UInt8(ascii: "}")) } else { endObject(indent: 0) }
        return true
    }

    private var isFull: Bool { buffer.count >= stopCount }

    private mutating func stop(_ position: Position) -> Bool {
        resumption.append(position)
        return false
    }

    private mutating func stop(_ place: Child.Place, _ key: Key, _ isArray: Bool, _ index: Int) -> Bool {
        stop(.child(Child(place: place, key: key, isArray: isArray, index: index)))
    }

    private mutating func startElement(isFirst: Bool) {
        if form.isPretty {
            buffer.append(isFirst ? " " : ", ")
        } else if !isFirst {
            buffer.append(UInt8(ascii: ","))
        }
    }

    private mutating func startMember(named key: Key, indent: Int, isFirst: Bool) {
        if !isFirst { buffer.append(UInt8(ascii: ",")) }
        if form.isPretty { startLine(indent: indent) }
        buffer.append(jsonName: key)
        buffer.append(form.isPretty ? " : " : ":")
    }

    private mutating func startMember(_ name: Text, indent: Int, isFirst: Bool) {
        if !isFirst { buffer.append(UInt8(ascii: ",")) }
        if form.isPretty { startLine(indent: indent) }
        buffer.append(json: name)
        buffer.append(form.isPretty ? " : " : ":")
    }

    private mutating func endObject(indent: Int) {
        if form.isPretty { startLine(indent: indent) }
        buffer.append(UInt8(ascii: "}"))
    }

    private mutating func startLine(indent: Int) {
        buffer.append(UInt8(ascii: "\n"))
        for _ in 0..<indent { buffer.append("  ") }
    }
}

extension [UInt8] {
    /// Escapes U+2028 and U+2029 (E2 80 A8 and A9 in UTF-8). In JSON they occur only in strings.
    fileprivate mutating func escapeLineSeparators(from start: Int) {
        func isSeparator(at index: Int) -> Bool {
            self[index] == 0xE2 && index + 2 < count && self[index + 1] == 0x80
                && self[index + 2] & 0xFE == 0xA8
        }
        guard var next = (start..<count).first(where: isSeparator) else { return }
        var escaped: [UInt8] = []
        var index = start
        while true {
            escaped += self[index..<next]
            escaped.append(self[next + 2] == 0xA8 ? "\\u2028" as StaticString : "\\u2029")
            index = next + 3
            guard let following = (index..<count).first(where: isSeparator) else { break }
            next = following
        }
        escaped += self[index...]
        replaceSubrange(start..., with: escaped)
    }
}

extension Children {
    /// Whether the first key is an index, and less than half of the elements up to the last key would be
    /// holes (§3.1): then the children are an array if all keys are indexes.
    /// - Complexity: O(log n).
    fileprivate var mayBeArray: Bool {
        // Integer keys come first, in ascending order. Between two of them there may be another spelling of
        // an integer.
        var first: Key?
        forEach { key, _ in
            first = key
            return false
        }
        guard let first, first.isIndex else { return false }
        var last: Int64?
        forEachReversed { key, _ in
            last = key.integer
            return false
        }
        guard let last else { return false }
        return last < 2 * Int64(count)
    }
}

extension Key {
    /// `0`, or digits of which the first is not zero.
    fileprivate var isIndex: Bool {
        guard let first = text.firstByte, first >= 0x30, first <= 0x39 else { return false }
        return (first != 0x30 || text.utf8Count == 1) && integer != nil
    }
}
