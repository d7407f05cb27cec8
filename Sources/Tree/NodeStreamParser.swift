import PandoBytes

/// Parses one JSON text of any size to a ``Node``, in pieces: for imports. The tree is in memory, and of the
/// text only the current token.
///
///     var parser = NodeStreamParser(at: depth)
///     while … { let count = try parser.read(window, isLast: …) }     // bytes behind `count` come again, in front of the next piece
///     let node = parser.finish()
///
/// In contrast to ``DraftParser``, which reads a complete message, children of large objects become pages
/// while they are read, there are no server values, and the first value that cannot be stored is an error
/// with its location.
package struct NodeStreamParser {
    /// Why the text cannot be stored, and where in it.
    package struct Problem: Error, Equatable, Sendable {
        package enum Reason: Equatable, Sendable {
            /// Not JSON (RFC 8259), at this byte.
            case malformed
            /// Nested deeper than ``Limits/jsonDepth``.
            case nestedTooDeeply
            /// JSON that cannot be stored.
            case invalid(InvalidData)
        }

        package var reason: Reason
        /// From the beginning of the text.
        package var byteOffset: Int
        /// The path of the innermost value whose name was read.
        package var path: Path
    }

    private enum Expectation {
        case value, elementOrEnd, nameOrEnd, name, commaOrEnd, end
    }

    private struct Frame {
        let isArray: Bool
        let firstEntry: Int
        /// Of an array: the index of the current element.
        var index = 0
        /// The children that were moved from the stack to pages.
        var children = Children()
        /// Whether the entries on the stack are in strictly ascending key order.
        var isAscending = true
        /// Whether an entry on the stack is null.
        var hasEmptyNodes = false
        /// At this many entries on the stack they are moved to pages.
        var stackedCount = NodeStreamParser.stackedCount
        /// The members `.value` and `.priority`.
        var value = Node.empty
        var priority: Priority?

        init(isArray: Bool, firstEntry: Int) {
            self.isArray = isArray
            self.firstEntry = firstEntry
        }
    }

    /// Bytes of the longest token: a string leaf of the greatest length, with each byte escaped as `\\u0041`,
    /// and its quotes.
    package static let tokenByteLimit = 6 * Limits.stringByteCount + 2

    /// Children of one object on the stack before they are moved to pages: so many that all pages are full.
    private static let stackedCount = 32 * Children.pageCapacity
    /// For children that are not in key order the number grows to an eighth of those in pages, up to this
    /// limit: the more of them are sorted together, the more go to the same page. About 3 MB.
    private static let stackedCountLimit = 64 << 10

    /// A name that was read before, and its key: most objects of a text have the same names as those before.
    private struct KnownName {
        var text: JSONReader.ShortString
        var key: Key
    }

    private static let knownNameBits: UInt64 = 8
    /// A hash table. The initial entries have a length that no string has.
    private var knownNames = ContiguousArray(
        repeating: KnownName(text: .init(low: 0, high: 0, byteCount: -1), key: Key(index: 0)),
        count: 1 << knownNameBits)

    private let pathDepth: Int
    private var expectation = Expectation.value
    private var frames: [Frame] = []
    /// The stack: the children read so far of open frames, outermost first, without those in pages.
    private var entries: ContiguousArray<Children.Entry> = []
    /// The current path below the root: a key for each frame, or one less between a value and the next name.
    private var keys: [Key] = []
    private var root = Node.empty
    /// Bytes of the text before the current window.
    private var consumedByteCount = 0
    /// Nodes read so far.
    package private(set) var nodeCount = 0

    /// - Parameter pathDepth: Segments of the path where the data goes.
    package init(at pathDepth: Int = 0) {
        self.pathDepth = pathDepth
    }

    /// Reads the next bytes of the text.
    /// - Parameters:
    ///   - window: The bytes that the last call did not read, and those that follow them.
    ///   - isLast: Whether the window ends the text.
    /// - Returns: How many bytes were read: all if `isLast`. The others are a token that may continue behind
    ///   the window.
    /// - Throws: ``Problem``; then no further call is allowed.
    /// - Complexity: O(window). A token that is longer than the window is read again in each call.
    package mutating func read(_ window: RawSpan, isLast: Bool) throws(Problem) -> Int {
        let readCount = try withCursor(over: window) { (cursor: inout ByteCursor) throws(Problem) -> Int in
            var reader = JSONReader(cursor)
            var tokenStart = 0
            do throws(MalformedJSON) {
                try read(&reader, &tokenStart, isLast)
            } catch {
                // At the end of the window an incomplete token looks like an error.
                if isLast || !reader.cursor.isAtEnd {
                    throw problem(error)
                }
                return tokenStart
            }
            if let invalid = reader.invalidData {
                throw Problem(
                    reason: .invalid(invalid), byteOffset: consumedByteCount + tokenStart, path: Path(keys))
            }
            return tokenStart
        }
        consumedByteCount += readCount
        return readCount
    }

    /// The node of the text.
    /// - Precondition: ``read(_:isLast:)`` was called with `isLast`.
    package consuming func finish() -> Node {
        precondition(expectation == .end, "the text has not ended")
        return root
    }

    private func problem(_ error: MalformedJSON) -> Problem {
        let reason: Problem.Reason =
            switch error {
            case .tooDeep: .nestedTooDeeply
            case .unexpected, .tooManyNodes: .malformed
            }
        return Problem(reason: reason, byteOffset: consumedByteCount + error.byteOffset, path: Path(keys))
    }

    /// Reads tokens, up to the end of the window or the first invalid data. State changes only after a
    /// complete token.
    /// - Parameter tokenStart: Set to the offset at which reading must continue.
    private mutating func read(
        _ reader: inout JSONReader, _ tokenStart: inout Int, _ isLast: Bool
    ) throws(MalformedJSON) {
        while true {
            let first = reader.peek()
            tokenStart = reader.cursor.offset
            if reader.cursor.isAtEnd {
                if isLast, expectation != .end { throw reader.unexpected() }
                return
            }
            switch expectation {
            case .value: guard try readValue(first, &reader, isLast) else { return }
            case .elementOrEnd:
                if first == UInt8(ascii: "]") {
                    reader.cursor.advance()
                    close()
                } else {
                    keys.append(Key(index: 0))
                    expectation = .value
                }
            case .nameOrEnd where first == UInt8(ascii: "}"):
                reader.cursor.advance()
                close()
            case .nameOrEnd, .name: guard try readName(&reader, isLast) else { return }
            case .commaOrEnd: try readComma(first, &reader)
            case .end: throw reader.unexpected()
            }
        }
    }

    /// - Returns: false when the token is incomplete or invalid.
    @inline(__always)
    private mutating func readValue(
        _ first: UInt8, _ reader: inout JSONReader, _ isLast: Bool
    ) throws(MalformedJSON) -> Bool {
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            guard frames.count < Limits.jsonDepth else { throw .tooDeep(byteOffset: reader.cursor.offset) }
            reader.cursor.advance()
            let isArray = first == UInt8(ascii: "[")
            frames.append(Frame(isArray: isArray, firstEntry: entries.count))
            expectation = isArray ? .elementOrEnd : .nameOrEnd
            return true
        }
        guard let leaf = try readLeaf(&reader, isLast) else { return false }
        complete(leaf)
        return true
    }

    /// - Returns: nil when the token may continue behind the window, or is invalid.
    @inline(__always)
    private func readLeaf(_ reader: inout JSONReader, _ isLast: Bool) throws(MalformedJSON) -> Node? {
        let leaf = try reader.readLeaf()
        if reader.cursor.isAtEnd, !isLast {
            // `12` may be the beginning of `123`.
            reader.invalidData = nil
            return nil
        }
        if case .string(let text) = leaf, text.utf8Count > Limits.stringByteCount {
            reader.note(.stringTooLong)
        }
        if pathDepth + keys.count > Limits.pathDepth { reader.note(.tooDeep) }
        return reader.invalidData == nil ? leaf : nil
    }

    private mutating func readName(_ reader: inout JSONReader, _ isLast: Bool) throws(MalformedJSON) -> Bool {
        guard let short = reader.peekShortString() else { return try readLongName(&reader, isLast) }
        let place = short.hash(bits: Self.knownNameBits)
        if knownNames[place].text == short {
            reader.cursor.advance(short.byteCount + 2)
            try reader.expect(UInt8(ascii: ":"))
            keys.append(knownNames[place].key)
            expectation = .value
            return true
        }
        let count = keys.count
        guard try readLongName(&reader, isLast) else { return false }
        // Names that begin with a dot are not keys.
        if keys.count > count { knownNames[place] = KnownName(text: short, key: keys[count]) }
        return true
    }

    private mutating func readLongName(_ reader: inout JSONReader, _ isLast: Bool) throws(MalformedJSON)
        -> Bool
    {
        if let key = reader.readPlainKey() {
            try reader.expect(UInt8(ascii: ":"))
            keys.append(key)
            expectation = .value
            return true
        }
        let name = try reader.readString()
        try reader.expect(UInt8(ascii: ":"))
        guard name.firstByte == UInt8(ascii: ".") else {
            if !Key.isLegal(name) { reader.note(.illegalKey(name)) }
            guard reader.invalidData == nil else { return false }
            keys.append(Key(unchecked: name))
            expectation = .value
            return true
        }
        return try readSpecial(name, &reader, isLast)
    }

    /// A member that begins with a dot, and its value: a leaf.
    private mutating func readSpecial(
        _ name: Text, _ reader: inout JSONReader, _ isLast: Bool
    ) throws(MalformedJSON) -> Bool {
        let first = reader.peek()
        let isStructure = first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
        switch name {
        case ".priority" where !isStructure:
            guard let leaf = try readLeaf(&reader, isLast) else { return false }
            let priority = Priority(leaf)
            if priority == nil, !leaf.isEmpty { reader.note(.priority) }
            frames[frames.count - 1].priority = priority
        case ".value" where !isStructure:
            guard let leaf = try readLeaf(&reader, isLast) else { return false }
            frames[frames.count - 1].value = leaf
        // At the end of the window it is not known whether an array or object follows.
        case _ where reader.cursor.isAtEnd && !isLast: throw reader.unexpected()
        case ".priority": reader.note(.priority)
        case ".value": reader.note(.value)
        case ".sv": reader.note(.serverValue)
        default: reader.note(.illegalKey(name))
        }
        expectation = .commaOrEnd
        return reader.invalidData == nil
    }

    private mutating func readComma(_ first: UInt8, _ reader: inout JSONReader) throws(MalformedJSON) {
        let top = frames.count - 1
        let isArray = frames[top].isArray
        if first == UInt8(ascii: ",") {
            if isArray { keys.append(Key(index: frames[top].index)) }
            expectation = isArray ? .value : .name
        } else if first == (isArray ? UInt8(ascii: "]") : UInt8(ascii: "}")) {
            reader.cursor.advance()
            return close()
        } else {
            throw reader.unexpected()
        }
        reader.cursor.advance()
    }

    // MARK: Building

    /// Adds a complete value to its parent, or sets it as the root.
    private mutating func complete(_ node: Node) {
        guard let top = frames.indices.last else {
            root = node
            expectation = .end
            return
        }
        expectation = .commaOrEnd
        let key = keys.removeLast()
        if frames[top].isArray {
            frames[top].index += 1
            if node.isEmpty { return }
        } else {
            if node.isEmpty { frames[top].hasEmptyNodes = true }
            if frames[top].isAscending, entries.count > frames[top].firstEntry {
                frames[top].isAscending = Key.compare(entries[entries.count - 1].key, key) < 0
            }
        }
        nodeCount += 1
        entries.append(Children.Entry(key: key, node: node))
        if entries.count - frames[top].firstEntry >= frames[top].stackedCount { moveToPages(top) }
    }

    private mutating func close() {
        let top = frames.count - 1
        let children = frames[top].children.isEmpty ? takeChildren(top) : takePages(top)
        let frame = frames.removeLast()
        // `.value` has precedence over children (realtime §8.2).
        let node = frame.value.isEmpty ? Node.children(children) : frame.value
        complete(frame.priority == nil ? node : node.with(priority: frame.priority))
    }

    /// Moves out all children of a frame that has no pages.
    private mutating func takeChildren(_ top: Int) -> Children {
        let first = frames[top].firstEntry
        if !frames[top].isAscending || frames[top].hasEmptyNodes { entries.dropSuperseded(from: first) }
        return Children(taking: &entries, from: first)
    }

    private mutating func takePages(_ top: Int) -> Children {
        moveToPages(top)
        return exchange(&frames[top].children, with: Children())
    }

    /// Moves the frame's entries from the stack to its pages. Of two with the same name the later one stays.
    private mutating func moveToPages(_ top: Int) {
        let first = frames[top].firstEntry
        guard entries.count > first else { return }
        var children = exchange(&frames[top].children, with: Children())
        let isInOrder = frames[top].isAscending && !frames[top].hasEmptyNodes
        // null removes a child with its name from the pages.
        let keepsEmptyNodes = !children.isEmpty
        if !isInOrder { entries.dropSuperseded(from: first, keepingEmptyNodes: keepsEmptyNodes) }
        let mayAppend = !(keepsEmptyNodes && frames[top].hasEmptyNodes)
        if !mayAppend || !children.append(taking: &entries, from: first) {
            for index in first..<entries.count {
                let key = entries[index].key
                children.update(key, with: &entries[index].node) { child, new in swap(&child, &new) }
            }
            entries.removeSubrange(first...)
            frames[top].stackedCount = min(max(Self.stackedCount, children.count / 8), Self.stackedCountLimit)
        }
        frames[top].children = children
        frames[top].isAscending = true
        frames[top].hasEmptyNodes = false
    }
}
