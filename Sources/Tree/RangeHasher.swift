import PandoBytes

// Hashes a node's leaves range by range (realtime §9.6).
//
//     range   = "(" item { "," item } ")"              every range repeats the keys of its ancestors
//     item    = quoted-key ":" "(" ( leaf | item { "," item } ) ")"
//     leaf    = [ "priority:" v2 ":" ] v2
//     v2      = "number:" hex64 | "boolean:true|false" | "string:" quoted
//     quoted  = '"' text with \ → \\ and " → \" '"'
//
// Leaves are in key order. An object's priority is a leaf with the key `.priority`, at its position in key
// order. If no child is after it, it is left out of the text, as clients do: it is then called hidden. So
// where an object without a priority has no child after that position, the client may have one that no hash
// shows.

/// Visits the leaves of a node once, and hashes them in the ranges of a client's compound hash.
///
/// Cost: one key comparison for each child of the nodes above the end of a range, one path comparison a
/// range, and hashing of the text. The recursion is as deep as the node.
struct RangeHasher {
    /// A node with a priority, and the ranges that it is in. Decides which ranges must be sent together
    /// (Node+RangeMerge.swift).
    struct Prioritized {
        /// Ranges of its first and last leaf, priorities of objects not counted.
        var firstLeaf: Int
        var lastLeaf: Int
        /// The range of its priority, as a leaf with the key `.priority`.
        var position: Int
        /// Ranges of the object's leaves before and after its priority; nil where there is none.
        var leafBefore: Int?
        var leafAfter: Int?
        /// Whether no child is after the priority: then it is in no hash.
        var isHidden: Bool { leafAfter == nil }
    }

    /// Most ``hiddenPlaces`` of a range that are cleared one by one: their entries take some 400 bytes, and
    /// clients make ranges of 512 bytes or more (§9.6). A client visits all siblings on the path of each
    /// entry, so there must not be many more entries than ranges.
    static let hiddenPlaceLimit = 4
    /// Up to so many ``hiddenPlaces`` in all are always cleared; more of them, where the node has priorities.
    static let alwaysClearedPlaceCount = 16

    private let clientHash: CompoundHash
    /// For each range, whether the client's hash differs from this node's.
    private(set) var differs: [Bool] = []
    /// For each range, whether it has a leaf that is not an object's priority.
    private(set) var hasLeaf: [Bool] = []
    /// Objects with a priority, in the order of their priorities' positions.
    private(set) var objects: [Prioritized] = []
    /// For each leaf with a priority at a path below which the client's hash has ends of ranges: all ranges
    /// there.
    private(set) var coveredLeaves: [Range<Int>] = []
    /// For each range, the paths `…/.priority` of objects that have no priority now and no child after that
    /// path: the client may have a hidden priority there. Of those between the same two leaves only the last
    /// one, and at most one more than ``hiddenPlaceLimit``.
    private(set) var hiddenPlaces: [[Path]] = []
    /// The ranges' texts, for tests.
    private(set) var texts: [String]?

    /// The keys from the root of the visit to the current node.
    private var keys: [Key] = []
    /// How many of `keys` are equal to those of the current range's end. If not all are, the current node is
    /// before that end, and so is everything below it.
    private var matched = 0
    /// The range of the last leaf. Not valid before the first leaf.
    private var lastLeaf = 0
    /// Whether the current range has a leaf that is not an object's priority.
    private var rangeHasLeaf = false
    /// The current range's ``hiddenPlaces``.
    private var rangeHiddenPlaces: [Path] = []
    /// Whether no leaf and no end of a range is between the last hidden place and the current node.
    private var followsHiddenPlace = false

    /// The text of the current range, without what was passed to `sha1` already.
    private var text: [UInt8] = []
    private var sha1 = SHA1()
    private var isOpen = false
    /// How many keys are open in the text, and how many of those are keys of the current node's path.
    private var openKeys = 0
    private var sharedKeys = 0
    private var fullText: [UInt8] = []

    /// - Parameters:
    ///   - clientHash: Must be usable (``CompoundHash/isUsable``).
    ///   - keepsTexts: Whether ``texts`` is filled.
    init(_ node: Node, against clientHash: CompoundHash, keepsTexts: Bool = false) {
        self.clientHash = clientHash
        if keepsTexts { texts = [] }
        differs.reserveCapacity(clientHash.hashes.count)
        if !node.isEmpty {
            closePassedRanges()
            _ = visit(node)
        }
        while range < clientHash.hashes.count { closeRange() }
    }

    /// The number of the current range: as many were closed.
    private var range: Int { differs.count }

    /// Whether the ``hiddenPlaces`` are to be cleared. Where there are many, and no object has a priority,
    /// the data uses none, as most data: then each resumption would be answered with much of it, for nothing.
    var clearsHiddenPlaces: Bool {
        !objects.isEmpty || hiddenPlaces.reduce(0) { $0 + $1.count } <= Self.alwaysClearedPlaceCount
    }

    // MARK: Visiting leaves

    /// - Returns: The range of the node's first leaf.
    private mutating func visit(_ node: Node) -> Int {
        guard case .object(let children) = node.withoutPriority else {
            append(leaf: node)
            lastLeaf = range
            rangeHasLeaf = true
            followsHiddenPlace = false
            if node.priority != nil { noteCoveredRanges() }
            return range
        }
        guard let priority = node.priority else {
            var first: Int?
            children.forEach { key, child in
                let range = visit(child, key)
                first = first ?? range
                return true
            }
            if let last = children.last, Key.compare(last.key, .priority) < 0 { noteHiddenPlace() }
            return first ?? range
        }
        return visit(children, of: priority)
    }

    private mutating func visit(_ node: Node, _ key: Key) -> Int {
        enter(key)
        defer { leave() }
        return visit(node)
    }

    private mutating func visit(_ children: Children, of priority: Priority) -> Int {
        var first: Int?
        var own: Int?
        children.forEach { key, child in
            if own == nil, Key.compare(.priority, key) < 0 {
                own = objects.count
                enter(.priority)
                append(leaf: priority.node)
                let before = first == nil ? nil : lastLeaf
                objects.append(.init(firstLeaf: 0, lastLeaf: 0, position: range, leafBefore: before))
                leave()
            }
            let range = visit(child, key)
            first = first ?? range
            if let own, objects[own].leafAfter == nil { objects[own].leafAfter = range }
            return true
        }
        let last = lastLeaf
        if own == nil {
            own = objects.count
            enter(.priority)
            objects.append(.init(firstLeaf: 0, lastLeaf: 0, position: range, leafBefore: last))
            leave()
        }
        if let own {
            objects[own].firstLeaf = first ?? last
            objects[own].lastLeaf = last
        }
        return first ?? last
    }

    /// Where the client has an object in several ranges, and there is now a leaf with a priority: all these
    /// ranges must be sent together. A client that removes the leaves of one of them would remove the leaf's
    /// priority, which it treats as a child.
    private mutating func noteCoveredRanges() {
        var end = range
        while end < clientHash.paths.count, clientHash.paths[end].count > keys.count,
            clientHash.paths[end].keys.starts(with: keys)
        {
            end += 1
        }
        if end > range { coveredLeaves.append(range..<(end + 1)) }
    }

    /// Notes that the client may have a hidden priority of the current node, which has none.
    private mutating func noteHiddenPlace() {
        enter(.priority)
        if followsHiddenPlace {
            rangeHiddenPlaces[rangeHiddenPlaces.count - 1] = Path(keys)
        } else if rangeHiddenPlaces.count <= Self.hiddenPlaceLimit {
            rangeHiddenPlaces.append(Path(keys))
        }
        followsHiddenPlace = true
        leave()
    }

    // MARK: Ends of ranges

    private mutating func enter(_ key: Key) {
        keys.append(key)
        if matched == keys.count - 1 { closePassedRanges() }
    }

    private mutating func leave() {
        keys.removeLast()
        matched = min(matched, keys.count)
        sharedKeys = min(sharedKeys, keys.count)
    }

    /// Closes ranges until the current node is not after the end of the current range.
    private mutating func closePassedRanges() {
        while range < clientHash.paths.count {
            let end = clientHash.paths[range]
            while matched < keys.count, matched < end.count, keys[matched] == end[matched] { matched += 1 }
            // The current node is the end of the range, or above it.
            if matched == keys.count { return }
            // What is below the end of a range is after it.
            if matched < end.count, Key.compare(keys[matched], end[matched]) < 0 { return }
            closeRange()
            matched = 0
        }
    }

    // MARK: Text

    private mutating func append(leaf node: Node) {
        if isOpen {
            closeKeys(downTo: sharedKeys)
            text.append(UInt8(ascii: ","))
        } else {
            text.append(UInt8(ascii: "("))
            isOpen = true
        }
        for key in keys[openKeys...] {
            key.withBytes { text.append(quoted: $0) }
            text.append(":(")
        }
        openKeys = keys.count
        sharedKeys = keys.count
        text.append(rangeLeaf: node)
        if text.count > 4096 { flush() }
    }

    private mutating func closeKeys(downTo count: Int) {
        while openKeys > count {
            text.append(UInt8(ascii: ")"))
            openKeys -= 1
        }
    }

    private mutating func flush() {
        // Moved out of `self` while `sha1` changes, and back for its capacity.
        var piece = exchange(&text, with: [])
        sha1.update(piece.rawSpan)
        if texts != nil { fullText += piece }
        piece.removeAll(keepingCapacity: true)
        text = consume piece
    }

    private mutating func closeRange() {
        var hash: [UInt8] = []
        if isOpen {
            closeKeys(downTo: 0)
            text.append(UInt8(ascii: ")"))
            flush()
            hash.append(base64: sha1.finish().rawSpan)
            sha1 = SHA1()
            isOpen = false
            sharedKeys = 0
        }
        if texts != nil {
            texts?.append(String(decoding: fullText, as: UTF8.self))
            fullText.removeAll()
        }
        differs.append(!clientHash.hashes[range].string.utf8.elementsEqual(hash))
        hasLeaf.append(rangeHasLeaf)
        hiddenPlaces.append(exchange(&rangeHiddenPlaces, with: []))
        rangeHasLeaf = false
        followsHiddenPlace = false
    }
}

extension [UInt8] {
    fileprivate mutating func append(rangeLeaf node: Node) {
        if let priority = node.priority {
            append("priority:")
            append(rangeValue: priority.node)
            append(UInt8(ascii: ":"))
        }
        append(rangeValue: node.withoutPriority)
    }

    /// A leaf without priority, in the second form (§9.6: V2): strings quoted.
    private mutating func append(rangeValue leaf: Node) {
        switch leaf {
        case .boolean(let value): append(value ? "boolean:true" : "boolean:false")
        case .string(let text):
            append("string:")
            text.withBytes { append(quoted: $0) }
        case .integer, .double: append(hashedNumber: leaf.doubleValue ?? 0)
        case .empty, .object, .prioritized: preconditionFailure("only leaves have a value")
        }
    }

    fileprivate mutating func append(quoted text: Span<UInt8>) {
        append(UInt8(ascii: "\""))
        for index in text.indices {
            let byte = text[index]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { append(UInt8(ascii: "\\")) }
            append(byte)
        }
        append(UInt8(ascii: "\""))
    }
}
