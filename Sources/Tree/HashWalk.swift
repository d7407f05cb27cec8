import PandoBytes

/// The simple hash of a node (Node+Hash.swift), computed in pieces, so that a worker may do other work in
/// between, and with what ``HashedPages`` knows of earlier snapshots.
///
///     walk   object ─▶ object ─▶ object      the large objects from the node down to the current place
///                                  └─ page ─▶ child child child …   small children are hashed at once
///
/// Work is counted in steps: one for each node, and one more for each 256 bytes of text. A step takes about a
/// quarter of a microsecond. A call does more steps than asked for in two cases, which cannot be cut: a long
/// string, and the children of an object that have priorities, which are sorted when all are hashed.
package struct HashWalk {
    /// A child of a large object is hashed in one piece if that takes no more steps than this.
    private static let smallStepCount = 1000
    fileprivate static let stepByteCount = 256

    private let node: Node
    private var objects: [Object] = []
    private var hasBegun = false
    /// Steps that were done, without those for texts of known pages.
    package private(set) var hashedStepCount = 0

    package init(_ node: Node) { self.node = node }

    /// Does about so many more steps.
    /// - Precondition: It has not returned the hash yet.
    /// - Returns: The hash; nil when more steps are needed.
    package mutating func advance(by stepCount: Int, knowing pages: inout HashedPages) -> String? {
        var left = stepCount
        if !hasBegun {
            hasBegun = true
            if case .object(let children) = node.withoutPriority,
                node.steps(upTo: Self.smallStepCount).isMore
            {
                objects.append(Object(node, children))
            } else {
                var text: [UInt8] = []
                hashedStepCount += node.steps(upTo: .max).count
                node.appendHash(to: &text)
                return String(decoding: text, as: UTF8.self)
            }
        }
        while left > 0 {
            let last = objects.count - 1
            if objects[last].isInPage {
                let before = left
                let child = objects[last].appendChildren(&left)
                hashedStepCount += before - left
                if let child {
                    objects.append(Object(child, child.children))
                } else {
                    objects[last].closePage(&pages)
                }
            } else if !objects[last].openPage(&left, &pages) {
                var object = objects.removeLast()
                if objects.isEmpty {
                    var text: [UInt8] = []
                    object.finish(&text)
                    return String(decoding: text, as: UTF8.self)
                }
                object.finish(&objects[last - 1].text)
            }
        }
        return nil
    }

    // MARK: Objects

    /// An object whose children are being hashed.
    private struct Object {
        private let node: Node
        private let children: Children
        private var sha1 = SHA1()
        /// Pages above the current one, each with the place of the next one in it.
        private var above: [(refs: ContiguousArray<Children.ChildRef>, next: Int)]
        private var entries: ContiguousArray<Children.Entry> = []
        /// The next child in the page.
        private var next = 0
        private(set) var isInPage = false
        /// The text of the current page (``HashedPages``).
        fileprivate var text: [UInt8] = []
        private var dataByteCount = 0
        private var hasPriorities = false
        /// A page has children with priorities: all children are sorted when the last is hashed.
        private var needsSorting = false
        /// The texts of all pages so far, if the children are sorted at the end.
        private var pageTexts: [[UInt8]] = []

        init(_ node: Node, _ children: Children) {
            self.node = node
            self.children = children
            above = Self.start(children)
            updatePriority(&sha1)
        }

        private static func start(
            _ children: Children
        ) -> [(refs: ContiguousArray<Children.ChildRef>, next: Int)] {
            [([Children.ChildRef(first: .priority, count: children.count, page: children.root)], 0)]
        }

        private func updatePriority(_ sha1: inout SHA1) {
            guard node.priority != nil else { return }
            var text: [UInt8] = []
            node.appendHashedPriority(to: &text)
            sha1.update(text.rawSpan)
        }

        /// Goes to the next page that is to be hashed, past those that are known.
        /// - Returns: false when no page is left; true with a page open, or when no step is left.
        mutating func openPage(_ left: inout Int, _ pages: inout HashedPages) -> Bool {
            while let (refs, place) = above.last {
                guard place < refs.count else {
                    above.removeLast()
                    continue
                }
                above[above.count - 1].next += 1
                switch refs[place].page {
                case .refs(let refs): above.append((refs, 0))
                case .entries(let entries):
                    guard let known = pages.page(of: entries) else {
                        self.entries = entries
                        (next, isInPage) = (0, true)
                        (dataByteCount, hasPriorities) = (0, false)
                        return true
                    }
                    add(known)
                    left -= 1 + known.text.count / HashWalk.stepByteCount
                    if left <= 0 { return true }
                }
            }
            return false
        }

        /// Hashes children of the page.
        /// - Returns: A large one, whose hash is to be appended to ``text``; nil at the end of the page, or
        ///   when no step is left.
        mutating func appendChildren(_ left: inout Int) -> Node? {
            while next < entries.count, left > 0 {
                let (key, node) = (entries[next].key, entries[next].node)
                next += 1
                text.append(UInt8(ascii: ":"))
                text.append(utf8: key)
                text.append(UInt8(ascii: ":"))
                if node.priority != nil { hasPriorities = true }
                let steps = node.steps(upTo: HashWalk.smallStepCount)
                dataByteCount += key.utf8Count + steps.byteCount
                if steps.isMore, !node.isLeaf { return node }
                left -= steps.count
                node.appendHash(to: &text)
            }
            return nil
        }

        /// Notes the text of the page, if all of its children are hashed.
        mutating func closePage(_ pages: inout HashedPages) {
            guard next == entries.count else { return }
            isInPage = false
            let page = HashedPages.Page(entries: entries, text: text, hasPriorities: hasPriorities)
            add(page)
            pages.note(page, dataByteCount: dataByteCount)
            entries = []
            text.removeAll(keepingCapacity: true)
        }

        private mutating func add(_ page: HashedPages.Page) {
            if needsSorting {
                pageTexts.append(page.text)
            } else if page.hasPriorities {
                // From the first page on again, to keep the texts. `HashedPages` has most of them.
                needsSorting = true
                above = Self.start(children)
            } else {
                sha1.update(page.text.rawSpan)
            }
        }

        /// Appends the hash.
        mutating func finish(_ output: inout [UInt8]) {
            if needsSorting { sortChildren() }
            sha1.finish(appendingBase64To: &output)
        }

        private struct TextRange {
            let key: Key
            let priority: Priority?
            let page: Int
            let range: Range<Int>
        }

        /// Hashes the texts of the children by priority, then by key.
        private mutating func sortChildren() {
            var ranges: [TextRange] = []
            ranges.reserveCapacity(children.count)
            var page = 0
            children.root.forEachLeafPage { entries in
                var start = 0
                for entry in entries {
                    let end = start + entry.key.utf8Count + 2 + Node.hashByteCount
                    ranges.append(
                        TextRange(
                            key: entry.key, priority: entry.node.priority, page: page, range: start..<end))
                    start = end
                }
                page += 1
            }
            ranges.sort { left, right in
                let order = Priority.compare(left.priority, right.priority)
                return order != 0 ? order < 0 : left.key < right.key
            }
            sha1 = SHA1()
            updatePriority(&sha1)
            // `UInt8` has no padding: every byte of the span is initialised.
            for one in ranges {
                let text = pageTexts[one.page]
                sha1.update(unsafe text.span.extracting(one.range).bytes)
            }
        }
    }
}

extension Node {
    /// Bytes of the hash of a node that is not `.empty`.
    fileprivate static let hashByteCount = 28

    /// What it takes to hash a node.
    fileprivate struct Steps {
        var count = 0
        /// Bytes of memory that the nodes take, about.
        var byteCount = 0
        let limit: Int

        var isMore: Bool { count > limit }

        mutating func add(byteCount added: Int) {
            count += 1 + added / HashWalk.stepByteCount
            byteCount += 48 + added
        }
    }

    /// Counts the steps of hashing the node, not many more than `limit`. O(`limit`).
    fileprivate func steps(upTo limit: Int) -> Steps {
        var steps = Steps(limit: limit)
        _ = count(&steps)
        return steps
    }

    /// - Returns: false when there are more.
    private func count(_ steps: inout Steps) -> Bool {
        if case .prioritized(let box) = self {
            steps.count += box.priority.weight / HashWalk.stepByteCount
            steps.byteCount += box.priority.weight
        }
        switch withoutPriority {
        case .object(let children):
            steps.add(byteCount: 0)
            return children.forEach { key, child in
                steps.byteCount += key.utf8Count
                return child.count(&steps)
            }
        case .string(let text): steps.add(byteCount: text.utf8Count)
        default: steps.add(byteCount: 0)
        }
        return !steps.isMore
    }
}

extension Children.Page {
    /// Calls `body` with each page that has children, in key order.
    fileprivate func forEachLeafPage(_ body: (ContiguousArray<Children.Entry>) -> Void) {
        switch self {
        case .entries(let entries): body(entries)
        case .refs(let refs): for ref in refs { ref.page.forEachLeafPage(body) }
        }
    }
}
