import PandoTree

/// Values that take long to free: they wait until the thread of the databases has no other reference to them,
/// and another thread frees them.
struct ReleaseQueue {
    private var values: [any Sendable] = []
    private let release: @Sendable (consuming any Sendable) -> Void

    /// - Parameter release: Has another thread release a value.
    init(_ release: @escaping @Sendable (consuming any Sendable) -> Void) { self.release = release }

    /// Nothing happens where there are none.
    mutating func add(_ nodes: [Node]) { if !nodes.isEmpty { values.append(nodes) } }

    mutating func add(_ value: consuming any Sendable) { values.append(value) }

    /// Hands all values to the other thread: nodes last, since other values may hold them, and nodes are
    /// freed a part at a time.
    mutating func flush() {
        guard !values.isEmpty else { return }
        for value in values where !(value is [Node]) { release(value) }
        for value in values where value is [Node] { release(value) }
        values.removeAll(keepingCapacity: true)
    }
}
