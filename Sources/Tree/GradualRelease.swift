/// Frees nodes a part at a time: to free a million children takes a tenth of a second, in which a thread may
/// have other things to do between two parts.
///
/// What others hold, too (a snapshot), is visited and not freed.
package struct GradualRelease: ~Copyable {
    private var nodes: [Node]
    /// Pages that nothing here refers to any more, except for this.
    private var pages: [Children.Page] = []

    package init(_ nodes: consuming [Node]) { self.nodes = nodes }

    /// Frees about so many entries.
    /// - Returns: How many; 0 where nothing was left.
    package mutating func releaseSome(_ count: Int) -> Int {
        var left = count
        while left > 0 {
            if let page = pages.popLast() {
                switch page {
                case .refs(let refs):
                    for ref in refs { pages.append(ref.page) }
                    left -= refs.count
                case .entries(let entries):
                    // Those of small objects as well: something large may be below.
                    for entry in entries { add(entry.node) }
                    left -= entries.count
                }
            } else if let node = nodes.popLast() {
                add(node)
                left -= 1
            } else {
                break
            }
        }
        return count - left
    }

    private mutating func add(_ node: Node) {
        if case .object(let children) = node.withoutPriority { pages.append(children.root) }
    }
}
