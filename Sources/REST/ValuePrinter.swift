import PandoBytes
import PandoTree

// A value as REST shows it (rest §3), in pieces.
//
//     compact   {"a":[1,null,"x"],"b":{"c":true}}
//     pretty    {\n  "a" : [ 1, null, "x" ],\n  "b" : {\n    "c" : true\n  }\n}\n
//
// Arrays are printed on their line, and do not indent what is in them: the service prints with Jackson's
// default
// pretty printer, as `print=pretty` of the public Hacker News database shows.

/// How a value is spelled.
package struct JSONForm: Equatable, Sendable {
    package var isPretty = false
    /// `.value` and `.priority` are shown; what they belong to is no array.
    package var hasPriorities = false
    /// Objects whose keys are indexes become arrays (§3.1).
    package var hasArrays = true
    /// The value's children are shown as `true` (§4.1).
    package var isShallow = false
    /// U+2028 and U+2029 are escaped: until ECMAScript 2019 they ended a line inside a string of a script
    /// (§3.3).
    package var isScript = false

    package init() {}

    /// As a read shows its value.
    package init(reading form: AnswerForm) {
        isPretty = form.print == .pretty
        hasPriorities = form.isExport
        hasArrays = !form.isExport && !form.isShallow
        isShallow = form.isShallow
        isScript = form.callback != nil
    }

    /// As a write repeats what was written: with its priorities (§2).
    package init(writing form: AnswerForm) {
        isPretty = form.print == .pretty
        hasPriorities = true
    }

    /// As an event stream shows its values: always on one line (§8.1).
    package init(streaming form: AnswerForm) {
        hasPriorities = form.isExport
        hasArrays = !form.isExport
    }
}

extension JSONForm {
    /// The whole text of a small leaf without a priority, which most answers are; nil for everything else.
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

/// Prints a snapshot of a value piece by piece: what is in memory of the text is one piece, not the text.
///
/// It walks down to where it stopped by the keys on the way, and so needs no iterator that holds its place: a
/// resumed
/// piece costs O(depth × log n) more, and in between printing is the plain recursion. (Depth is bounded by
/// ``Limits/pathDepth``.)
package struct ValuePrinter: Sendable {
    package enum Root: Sendable {
        case node(Node)
        /// An object of these, in this order, `.empty` ones as null: what no tree holds, but an answer says.
        case members([Member])
        /// Only what stands before and behind it.
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
    /// Printed and not yet given. May be over a piece by one leaf, which is printed at once.
    private var buffer: [UInt8]
    /// Bytes of `buffer` that were given.
    private var offset = 0
    private var isComplete = false
    /// Printing stops at the next seam when the buffer holds as much.
    private var stopCount = 0
    /// Where printing stopped, innermost first; empty before the beginning and after the end.
    private var trail: [Mark] = []

    /// Where printing stopped in one array or object.
    private struct Mark {
        enum Place { case before, inside, after }
        /// In relation to the child with this key. Of the members of ``Root/members(_:)``, `index` alone says
        /// it.
        var place: Place
        var key: Key
        var isArray: Bool
        /// The next element of an array that is due: less than the key's own when holes come before it.
        var index: Int
    }

    /// - Parameters:
    ///   - prefix: What comes before the value, and `suffix` behind it; a pretty value ends the line after
    /// both.
    package init(_ root: Root, _ form: JSONForm, prefix: [UInt8] = [], suffix: [UInt8] = []) {
        self.root = root
        self.form = form
        self.suffix = suffix
        buffer = prefix
    }

    /// True when everything was given.
    package var isFinished: Bool { isComplete && offset == buffer.count }

    /// The next piece.
    /// - Parameter byteLimit: Most bytes of it; at least one. Only the last piece is shorter.
    /// - Returns: Never empty; nil when everything was given.
    /// - Complexity: O(piece), plus O(depth × log n).
    package mutating func next(atMost byteLimit: Int = RESTLimits.pieceByteCount) -> [UInt8]? {
        precondition(byteLimit > 0)
        fill(to: byteLimit)
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

    /// Everything that is left, when that is not more than `byteLimit`; else nil, and nothing is given.
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

    /// Bytes of everything that is left, or nil when they are more than `byteLimit`. Builds no text, but
    /// prints all of it
    /// to count: O(text).
    package func byteCount(atMost byteLimit: Int) -> Int? {
        var copy = self
        var count = 0
        while let piece = copy.next() {
            count += piece.count
            guard count <= byteLimit else { return nil }
        }
        return count
    }

    /// Prints until so many bytes are there to be given, or all.
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
        // Printing stops between tokens, so none of these characters is cut.
        if form.isScript { buffer.escapeLineSeparators(from: start) }
    }
}

// Each function prints what is left of its part and says true; or says false when the buffer is full, and
// leaves
// marks in `trail` by which the next call finds the place.
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
        var mark = trail.popLast()
        let isArray = mark?.isArray ?? (form.hasArrays && priority == nil && !isShallow && children.isArray)
        var index = mark?.index ?? 0
        var isFirst = mark == nil
        // What an array holds stays on its line, and so is indented as the array is.
        let inner = isArray ? indent : indent + 1
        if mark == nil {
            buffer.append(UInt8(ascii: isArray ? "[" : "{"))
            if let priority {
                startMember(".priority", indent: inner, isFirst: true)
                buffer.append(json: priority.node)
                isFirst = false
            }
        }
        let isFinished = children.forEach(from: mark?.key) { key, child in
            var isInside = false
            if let place = mark.take()?.place {
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
        let mark = trail.popLast()
        if mark == nil { buffer.append(UInt8(ascii: "{")) }
        for index in (mark?.index ?? 0)..<members.count {
            let (name, node) = (members[index].name, members[index].node)
            if mark?.place != .inside || mark?.index != index {
                startMember(name, indent: 1, isFirst: index == 0)
            }
            guard printNode(node, indent: 1) else { return stop(.inside, Key(unchecked: name), false, index) }
            if isFull { return stop(.after, Key(unchecked: name), false, index + 1) }
        }
        if members.isEmpty { buffer.append(UInt8(ascii: "}")) } else { endObject(indent: 0) }
        return true
    }

    private var isFull: Bool { buffer.count >= stopCount }

    private mutating func stop(_ place: Mark.Place, _ key: Key, _ isArray: Bool, _ index: Int) -> Bool {
        trail.append(Mark(place: place, key: key, isArray: isArray, index: index))
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
    /// Writes U+2028 and U+2029 (E2 80 A8 and A9 in UTF-8) as escapes. In JSON they stand in strings only.
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
    /// True when all keys are canonical indexes and less than half of the places up to the last one are holes
    /// (§3.1).
    /// - Complexity: O(log n) for most objects: the first key or the last tells. O(n) otherwise.
    var isArray: Bool {
        // Integer keys come first and ascend: between two of them there is no other key, but perhaps an odd
        // spelling.
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
