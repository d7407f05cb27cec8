import PandoBytes

// Hashes a node's leaves range by range (realtime §9.6).
//
//     range   = "(" item { "," item } ")"              every range spells its ancestors' keys again
//     item    = quoted-key ":" "(" ( leaf | item { "," item } ) ")"
//     leaf    = [ "priority:" v2 ":" ] v2
//     v2      = "number:" hex64 | "boolean:true|false" | "string:" quoted
//     quoted  = '"' text with \ → \\ and " → \" '"'
//
// Leaves come in key order. An object's priority is a leaf named `.priority` at its sorted place; clients
// leave it out of the text when no child sorts after it, and so do we: it is then called hidden.

/// One walk over a node, cut at the paths of a client's claim.
///
/// Cost: one key comparison for each child on the way to a cut, one path comparison a cut, and the text
/// hashed. Recursion is as deep as the node.
struct RangeHasher {
    /// A node with a priority, and the ranges it lies in. Needed to choose what may be sent alone.
    struct Prioritized {
        /// Ranges of its first and last leaf, priorities of objects not counted.
        var firstLeaf: Int
        var lastLeaf: Int
        /// The range where its priority stands as a leaf named `.priority`.
        var position: Int
        /// Ranges of the leaves around that place which are the object's own.
        var leafBefore: Int?
        var leafAfter: Int?
        /// No child sorts after the priority, so no hash speaks of it.
        var isHidden: Bool { leafAfter == nil }
    }

    private let claim: CompoundHash
    /// For each range, whether the client's hash is not ours.
    private(set) var differs: [Bool] = []
    /// For each range, whether it holds a leaf that is not an object's priority.
    private(set) var hasLeaf: [Bool] = []
    /// Objects by the place of their priority, and below them leaves that the client has as an object.
    private(set) var objects: [Prioritized] = []
    private(set) var coveredLeaves: [Range<Int>] = []
    /// The ranges' texts, when a test wants to see them.
    private(set) var texts: [String]?

    /// The keys from the node at the root of the walk to the one at hand.
    private var keys: [Key] = []
    /// How many of `keys` are those of the cut that ends the range at hand. When fewer than all, the place at
    /// hand is before the cut, and so is everything below.
    private var matched = 0
    /// The range of the last leaf. Meaningless before the first.
    private var lastLeaf = 0
    private var holdsLeaf = false

    /// The text of the range at hand, less what `sha1` has taken.
    private var text: [UInt8] = []
    private var sha1 = SHA1()
    private var isOpen = false
    /// How many keys are open in the text, and how many of those lead to the place at hand.
    private var openKeys = 0
    private var sharedKeys = 0
    private var fullText: [UInt8] = []

    /// - Parameter claim: Usable (``CompoundHash/isUsable``).
    init(_ node: Node, against claim: CompoundHash, keepsTexts: Bool = false) {
        self.claim = claim
        if keepsTexts { texts = [] }
        differs.reserveCapacity(claim.hashes.count)
        if !node.isEmpty {
            passCuts()
            _ = walk(node)
        }
        while range < claim.hashes.count { closeRange() }
    }

    /// The number of the range at hand: as many as are closed.
    private var range: Int { differs.count }

    // MARK: The walk

    /// - Returns: The range of the node's first leaf.
    private mutating func walk(_ node: Node) -> Int {
        guard case .object(let children) = node.withoutPriority else {
            append(leaf: node)
            lastLeaf = range
            holdsLeaf = true
            if node.priority != nil { noteCover() }
            return range
        }
        guard let priority = node.priority else {
            var first: Int?
            children.forEach { key, child in
                let range = walk(child, named: key)
                first = first ?? range
                return true
            }
            return first ?? range
        }
        return walk(children, of: priority)
    }

    private mutating func walk(_ node: Node, named key: Key) -> Int {
        enter(key)
        defer { leave() }
        return walk(node)
    }

    private mutating func walk(_ children: Children, of priority: Priority) -> Int {
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
            let range = walk(child, named: key)
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

    /// A leaf with a priority that the client has as an object cut in pieces: all of them must go at once,
    /// because a client that clears one piece takes a leaf's priority for a child in it.
    private mutating func noteCover() {
        var end = range
        while end < claim.paths.count, claim.paths[end].count > keys.count,
            claim.paths[end].keys.starts(with: keys)
        {
            end += 1
        }
        if end > range { coveredLeaves.append(range..<(end + 1)) }
    }

    // MARK: Cuts

    private mutating func enter(_ key: Key) {
        keys.append(key)
        if matched == keys.count - 1 { passCuts() }
    }

    private mutating func leave() {
        keys.removeLast()
        matched = min(matched, keys.count)
        sharedKeys = min(sharedKeys, keys.count)
    }

    /// Closes ranges until the place at hand is not after the cut.
    private mutating func passCuts() {
        while range < claim.paths.count {
            let cut = claim.paths[range]
            while matched < keys.count, matched < cut.count, keys[matched] == cut[matched] { matched += 1 }
            // The place is the cut, or above it.
            if matched == keys.count { return }
            // What lies below a cut is after it.
            if matched < cut.count, Key.compare(keys[matched], cut[matched]) < 0 { return }
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
        // Out of `self` while `sha1` changes, and back in for its capacity.
        var piece: [UInt8] = []
        swap(&piece, &text)
        sha1.update(piece.rawSpan)
        if texts != nil { fullText += piece }
        piece.removeAll(keepingCapacity: true)
        swap(&piece, &text)
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
        differs.append(!claim.hashes[range].string.utf8.elementsEqual(hash))
        hasLeaf.append(holdsLeaf)
        holdsLeaf = false
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
