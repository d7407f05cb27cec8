import PandoTree

/// Values that take long to free: they wait until the thread of the databases has no other reference to them,
/// and another thread frees them.
struct ReleaseQueue {
    private var values: [any Sendable] = []
    /// Nodes are freed a part at a time, and other values may hold them: so they go last.
    private var nodes: [[Node]] = []
    private let release: @Sendable (consuming any Sendable) -> Void

    /// - Parameter release: Has another thread release a value.
    init(_ release: @escaping @Sendable (consuming any Sendable) -> Void) { self.release = release }

    /// Nothing happens where there are none.
    mutating func add(_ nodes: [Node]) { if !nodes.isEmpty { self.nodes.append(nodes) } }

    mutating func add(_ value: consuming any Sendable) { values.append(value) }

    /// Hands all values to the other thread, in order, nodes last.
    ///
    /// Each is moved out first: the other thread may drop its reference before this returns, and one that was
    /// still here would then be the last, and the value freed on this thread.
    mutating func flush() {
        values.reverse()
        while let value = values.popLast() { release(consume value) }
        nodes.reverse()
        while let some = nodes.popLast() { release(consume some) }
    }
}
