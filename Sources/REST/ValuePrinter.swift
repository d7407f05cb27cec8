import PandoBytes
import PandoTree

// Prints a value for REST (rest §3), in pieces.
//
//     compact   {"a":[1,null,"x"],"b":{"c":true}}
//     pretty    {\n  "a" : [ 1, null, "x" ],\n  "b" : {\n    "c" : true\n  }\n}\n
//
// Arrays stay on one line, and do not indent their elements: the service uses Jackson's default pretty
// printer, as `print=pretty` of the public Hacker News database shows.

/// The form of a printed value.
package struct JSONForm: Equatable, Sendable {
    package var isPretty = false
    /// Prints `.value` and `.priority`. A node with a priority is then never an array.
    package var hasPriorities = false
    /// Prints objects whose keys are indexes as arrays (§3.1).
    package var hasArrays = true
    /// Prints the children of the root as `true` (§4.1).
    package var isShallow = false
    /// Escapes U+2028 and U+2029, which end a line inside a string before ECMAScript 2019 (§3.3).
    package var isScript = false

    package init() {}

    /// For the response to a read.
    package init(reading form: ResponseForm) {
        isPretty = form.print == .pretty
        hasPriorities = form.isExport
        hasArrays = !form.isExport && !form.isShallow
        isShallow = form.isShallow
        isScript = form.callback != nil
    }

    /// For the response to a write: what was written, with its priorities (§2).
    package init(writing form: ResponseForm) {
        isPretty = form.print == .pretty
        hasPriorities = true
    }

    /// For an event stream: always on one line (§8.1).
    package init(streaming form: ResponseForm) {
        hasPriorities = form.isExport
        hasArrays = !form.isExport
    }
}

extension JSONForm {
    /// The whole text of a small leaf without a priority, as most values are; nil for any other node.
    func text(ofSmall node: Node) -> [UInt8]? {
        switch node {
        case .empty, .boolean, .integer, .double: break
        case .string(let text) where text.utf8Count <= Self.smallByteCount: break
        case .string, .object, .prioritized: return nil
        }
        var text: [UInt8] = []
        // Quotes, and the longest number.
        text.reserveCapacity(Self.smallByteCount + 64)
        text.append(json: node)
        if isPretty { text.append(UInt8(ascii: "\n")) }
        return text
    }

    private static let smallByteCount = 192
}

/// Prints a snapshot of a value piece by piece, so that only one piece of the text is in memory.
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
    /// Printed and not yet returned. May exceed a piece by one leaf, which is printed at once.
    private var buffer: [UInt8]
    /// Bytes of `buffer` that were returned.
    private var offset = 0
    private(set) var isComplete = false
    /// Printing stops between two tokens once the buffer holds so many bytes.
    private var stopCount = 0
    /// Where printing stopped, innermost first; empty before the beginning and after the end.
    private var resumption: [Position] = []

    /// Where printing stopped in one array or object.
    private struct Position {
        enum Place { case before, inside, after }
        /// In relation to the child with this key. For ``Root/members(_:)`` only `index` counts.
        var place: Place
        var key: Key
        var isArray: Bool
        /// The next element of an array: less than the key's own index when there are holes before it.
        var index: Int
    }

    /// - Parameters:
    ///   - prefix: Printed before the value.
    ///   - suffix: Printed behind it; a pretty value then ends the line.
    package init(_ root: Root, _ form: JSONForm, prefix: [UInt8] = [], suffix: [UInt8] = []) {
        self.root = root
        self.form = form
        self.suffix = suffix
        buffer = prefix
    }

    /// Whether everything was returned.
    package var isFinished: Bool { isComplete && offset == buffer.count }

    /// The next piece.
    /// - Parameter byteLimit: The most bytes, at least one. Only the last piece is shorter.
    /// - Returns: Never empty; nil when everything was returned.
    /// - Complexity: O(piece), plus O(depth × log n).
    package mutating func next(atMost byteLimit: Int = RESTLimits.pieceByteCount) -> [UInt8]? {
        precondition(byteLimit > 0)
        fill(to: byteLimit)
        assert(isComplete || buffer.count - offset >= byteLimit, "only the last piece is shorter")
        guard offset < buffer.count else { return nil }
        if offset == 0, buffer.count <= byteLimit {
            let piece = buffer
            buffer = []
            return piece
        }
        let end = min(offset + byteLimit, buffer.count)
        defer { offset = end }
        return Array(buffer[offset..<end])
    }

    /// Bytes that were printed and not returned.
    var bufferedByteCount: Int { buffer.count - offset }

    /// Prints at least so many bytes more, or everything. ``next(atMost:)`` and ``whole(atMost:)`` return
    /// them.
    /// - Returns: How many were printed.
    /// - Complexity: O(`byteCount`), plus O(depth × log n).
    @discardableResult
    mutating func printAhead(_ byteCount: Int) -> Int {
        let before = bufferedByteCount
        fill(to: before + byteCount)
        return bufferedByteCount - before
    }

    /// As ``next(atMost:)``, and how many bytes were printed for it: what was printed ahead was not.
    mutating func nextPiece() -> (bytes: [UInt8], printedByteCount: Int) {
        let before = bufferedByteCount
        let bytes = next() ?? []
        return (bytes, bytes.count + bufferedByteCount - before)
    }

    /// All of the rest, if it has at most `byteLimit` bytes. Otherwise nil, and nothing is removed.
    /// - Complexity: O(min(text, limit)).
    package mutating func whole(atMost byteLimit: Int) -> [UInt8]? {
        fill(to: byteLimit + 1)
        guard isComplete, buffer.count - offset <= byteLimit else { return nil }
        defer {
            buffer = []
            offset = 0
        }
        return offset == 0 ? buffer : Array(buffer[offset...])
    }

    /// Prints until the buffer holds so many bytes, or everything.
    private mutating func fill(to byteCount: Int) {
        guard !isComplete, buffer.count - offset < byteCount else { return }
        if offset > 0 {
            buffer.removeSubrange(..<offset)
            offset = 0
        }
        stopCount = byteCount
        buffer.reserveCapacity(min(byteCount, RESTLimits.pieceByteCount))
        let start = buffer.count
        while !isComplete, buffer.count < byteCount {
            guard printRoot() else { continue }
            buffer += suffix
            if form.isPretty { buffer.append(UInt8(ascii: "\n")) }
            isComplete = true
        }
        // Printing stops between tokens, so none of these characters is split.
        if form.isScript { buffer.escapeLineSeparators(from: start) }
    }
}

// Each function prints the rest of its part and returns true. When the buffer is full it returns false, and
// adds to `resumption` where it stopped.
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
            buffer.append(UInt8(ascii: "{"))
            startMember(".value", indent: indent + 1, isFirst: true)
            buffer.append(json: box.node)
            startMember(".priority", indent: indent + 1, isFirst: false)
            buffer.append(json: box.priority.node)
            endObject(indent: indent)
        case .empty, .boolean, .integer, .double, .string:
            buffer.append(json: node)
        }
        return true
    }

    private mutating func printObject(
        _ children: Children, _ priority: Priority?, indent: Int, isShallow: Bool = false
    ) -> Bool {
        var position = resumption.popLast()
        let isArray =
            position?.isArray ?? (form.hasArrays && priority == nil && !isShallow && children.isArray)
        var index = position?.index ?? 0
        var isFirst = position == nil
        // The elements of an array stay on its line, so they have its indentation.
        let inner = isArray ? indent : indent + 1
        if position == nil {
            buffer.append(UInt8(ascii: isArray ? "[" : "{"))
            if let priority {
                startMember(".priority", indent: inner, isFirst: true)
                buffer.append(json: priority.node)
                isFirst = false
            }
        }
        let isFinished = children.forEach(from: position?.key) { key, child in
            var isInside = false
            if let place = position.take()?.place {
                if place == .after { return true }
                isInside = place == .inside
            }
            if !isInside {
                if isArray {
                    let own = Int(key.integer ?? 0)
                    while index < own {
                        startElement(isFirst: index == 0)
                        buffer.append("null")
                        index += 1
                        if isFull { return stop(.before, key, isArray, index) }
                    }
                    startElement(isFirst: index == 0)
                    index += 1
                } else {
                    startMember(named: key, indent: inner, isFirst: isFirst)
                    isFirst = false
                }
            }
            if isShallow {
                buffer.append("true")
            } else if !printNode(child, indent: inner) {
                return stop(.inside, key, isArray, index)
            }
            return isFull ? stop(.after, key, isArray, index) : true
        }
        guard isFinished else { return false }
        if isArray {
            buffer.append(form.isPretty ? " ]" : "]")
        } else {
            endObject(indent: indent)
        }
        return true
    }

    private mutating func printMembers(_ members: [Member]) -> Bool {
        let position = resumption.popLast()
        if position == nil { buffer.append(UInt8(ascii: "{")) }
        for index in (position?.index ?? 0)..<members.count {
            let (name, node) = (members[index].name, members[index].node)
            if position?.place != .inside || position?.index != index {
                startMember(name, indent: 1, isFirst: index == 0)
            }
            guard printNode(node, indent: 1) else { return stop(.inside, Key(unchecked: name), false, index) }
            if isFull { return stop(.after, Key(unchecked: name), false, index + 1) }
        }
        if members.isEmpty { buffer.append(UInt8(ascii: "}")) } else { endObject(indent: 0) }
        return true
    }

    private var isFull: Bool { buffer.count >= stopCount }

    private mutating func stop(_ place: Position.Place, _ key: Key, _ isArray: Bool, _ index: Int) -> Bool {
        resumption.append(Position(place: place, key: key, isArray: isArray, index: index))
        return false
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
    /// Whether all keys are canonical indexes, and less than half of the elements up to the last one are
    /// holes (§3.1).
    /// - Complexity: O(log n) for most objects, where the first or the last key decides; otherwise O(n).
    var isArray: Bool {
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
        guard let last, last < 2 * Int64(count) else { return false }
        return forEach { key, _ in key.isIndex }
    }
}

extension Key {
    /// `0`, or digits of which the first is not zero.
    fileprivate var isIndex: Bool {
        guard let first = text.firstByte, first >= 0x30, first <= 0x39 else { return false }
        return (first != 0x30 || text.utf8Count == 1) && integer != nil
    }
}
