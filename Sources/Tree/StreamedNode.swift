import PandoBytes

/// One JSON text of any size, read as it comes, into a ``Node``: imports. In memory is the tree and no text
/// but the token at hand.
///
///     var node = StreamedNode(at: depth)
///     while … { let taken = try node.take(window, isLast: …) }     // keep what was not taken in front of the next piece
///     node.finish()
///
/// What `DraftParser` does with a whole message: but objects of many children become pages while they are
/// read, there are no server values, and the first thing that cannot be stored ends it, with its place.
package struct StreamedNode {
    /// Why the text cannot be stored, and where.
    package struct Problem: Error, Equatable, Sendable {
        package enum Reason: Equatable, Sendable {
            /// Not JSON (RFC 8259), at this byte.
            case malformed
            /// Arrays and objects within each other beyond ``Limits/jsonDepth``.
            case nestedTooDeeply
            case invalid(InvalidData)
        }

        package var reason: Reason
        /// From the beginning of the text.
        package var byteOffset: Int
        /// Below which location it is, as far as it is known.
        package var path: Path
    }

    private enum Expectation {
        case value, elementOrEnd, nameOrEnd, name, commaOrEnd, end
    }

    private struct Frame {
        let isArray: Bool
        let firstEntry: Int
        /// The element at hand, of an array.
        var index = 0
        /// What has become pages already: in key order, before ``isAscending``'s entries.
        var children = Children()
        /// The names on the stack came in key order, each after the one before.
        var isAscending = true
        /// A name on the stack stands for null.
        var hasEmptyNodes = false
        /// So many children on the stack become pages.
        var stackedCount = StreamedNode.stackedCount
        /// `.value` and `.priority`, where they were said.
        var value = Node.empty
        var priority: Priority?

        init(isArray: Bool, firstEntry: Int) {
            self.isArray = isArray
            self.firstEntry = firstEntry
        }
    }

    /// Bytes of the longest token: a string of the longest leaf, each byte of it escaped as `\\u0041`, and
    /// its quotes.
    package static let tokenByteLimit = 6 * Limits.stringByteCount + 2

    /// Children of one object on the stack before they become pages: all pages of them are full.
    private static let stackedCount = 32 * Children.pageCapacity
    /// Of those that do not come in key order an eighth of what is in pages, up to so many: the more of them
    /// are sorted first, the more of them go into one page. About 3 MB.
    private static let stackedCountLimit = 64 << 10

    /// A name that was read and found to be a key: most objects of a text have the names of those before
    /// them.
    private struct KnownName {
        var text: JSONReader.ShortString
        var key: Key
    }

    private static let knownNameBits: UInt64 = 8
    /// By hash; at first none, which no string of that length is.
    private var knownNames = ContiguousArray(
        repeating: KnownName(text: .init(low: 0, high: 0, byteCount: -1), key: Key(index: 0)),
        count: 1 << knownNameBits)

    private let pathDepth: Int
    private var expectation = Expectation.value
    private var frames: [Frame] = []
    /// The children so far of open frames, outermost first, but for those that are in pages.
    private var entries: ContiguousArray<Children.Entry> = []
    /// One for each frame, less one between a value and the next.
    private var keys: [Key] = []
    private var root = Node.empty
    /// Bytes of the text before the window at hand.
    private var takenByteCount = 0
    /// Nodes so far.
    package private(set) var nodeCount = 0

    /// - Parameter pathDepth: Segments of the path where the data goes.
    package init(at pathDepth: Int = 0) {
        self.pathDepth = pathDepth
    }

    /// Reads the next bytes of the text.
    /// - Parameters:
    ///   - window: What was not taken before, and what follows it.
    ///   - isLast: Nothing comes behind the window.
    /// - Returns: How many bytes were taken; the others are a token that may go on behind the window.
    ///   Everything when `isLast`.
    /// - Throws: ``Problem``; then nothing more is taken.
    /// - Complexity: O(window); a token that is longer than a window is looked at again with each.
    package mutating func take(_ window: RawSpan, isLast: Bool) throws(Problem) -> Int {
        let taken = try withCursor(over: window) { (cursor: inout ByteCursor) throws(Problem) -> Int in
            var reader = JSONReader(cursor)
            var mark = 0
            do throws(MalformedJSON) {
                try read(&reader, &mark, isLast)
            } catch {
                // At the end of the window anything may be the beginning of something else.
                if isLast || !reader.cursor.isAtEnd {
                    throw problem(error)
                }
                return mark
            }
            if let invalid = reader.invalidData {
                throw Problem(reason: .invalid(invalid), byteOffset: takenByteCount + mark, path: Path(keys))
            }
            return mark
        }
        takenByteCount += taken
        return taken
    }

    /// The whole text as a node.
    /// - Precondition: ``take(_:isLast:)`` has taken the last of it.
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
        return Problem(reason: reason, byteOffset: takenByteCount + error.byteOffset, path: Path(keys))
    }

    /// Reads tokens. State changes only when a token is whole: until then `mark` is where to begin again.
    /// - Returns: At the end of the window, or with ``JSONReader/invalidData`` noted, at `mark`.
    private mutating func read(
        _ reader: inout JSONReader, _ mark: inout Int, _ isLast: Bool
    ) throws(MalformedJSON) {
        while true {
            let first = reader.peek()
            mark = reader.cursor.offset
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

    /// - Returns: false when the token is not whole, or invalid.
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

    /// - Returns: Nil when the token may go on, or is invalid.
    @inline(__always)
    private func readLeaf(_ reader: inout JSONReader, _ isLast: Bool) throws(MalformedJSON) -> Node? {
        let leaf = try reader.readLeaf()
        if reader.cursor.isAtEnd, !isLast {
            // `12` may become `123`.
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
        // Not those that begin with a dot: they are no keys.
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
            if !Key.isLegal(name) { reader.note(.key(String(name.string.prefix(64)))) }
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
        // What is at the end of the window cannot be told from a structure that begins behind it.
        case _ where reader.cursor.isAtEnd && !isLast: throw reader.unexpected()
        case ".priority": reader.note(.priority)
        case ".value": reader.note(.value)
        case ".sv": reader.note(.serverValue)
        default: reader.note(.key(String(name.string.prefix(64))))
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

    /// A value is there: it is the text's, or its parent's.
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
        // A `.value` wins over the children (realtime §8.2).
        let node = frame.value.isEmpty ? Node.children(children) : frame.value
        complete(frame.priority == nil ? node : node.with(priority: frame.priority))
    }

    /// All children of a frame that has no pages.
    private mutating func takeChildren(_ top: Int) -> Children {
        let first = frames[top].firstEntry
        if !frames[top].isAscending || frames[top].hasEmptyNodes { entries.dropSuperseded(from: first) }
        return Children(taking: &entries, from: first)
    }

    private mutating func takePages(_ top: Int) -> Children {
        moveToPages(top)
        var children = Children()
        swap(&children, &frames[top].children)
        return children
    }

    /// Takes the frame's entries off the stack and puts them into its pages; of two with one name the later
    /// stays.
    private mutating func moveToPages(_ top: Int) {
        let first = frames[top].firstEntry
        guard entries.count > first else { return }
        var children = Children()
        swap(&children, &frames[top].children)
        let isInOrder = frames[top].isAscending && !frames[top].hasEmptyNodes
        // Null takes away what is in pages under its name.
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
