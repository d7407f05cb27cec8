import PandoBytes

/// A placeholder that the server replaces by a value when a write is executed (realtime §10).
package enum ServerValue: Equatable, Sendable {
    /// The server's time in milliseconds; the same for the whole write.
    case timestamp
    /// The committed number at the location plus this one. Always `.integer` or `.double`.
    case increment(Node)

    /// The value that replaces the placeholder.
    /// - Parameters:
    ///   - current: The node at the location before the write; anything but a number counts as 0.
    ///   - milliseconds: The time of the write, since 1970.
    package func resolved(current: Node, milliseconds: Int64) -> Node {
        switch self {
        case .timestamp: .integer(milliseconds)
        case .increment(let delta): Self.sum(current.withoutPriority, delta)
        }
    }

    static let key: Key = ".sv"

    /// As a client sends it (realtime §10).
    var spelled: Node {
        switch self {
        case .timestamp: .empty.setting(.string("timestamp"), at: Self.key)
        case .increment(let delta): .empty.setting(.empty.setting(delta, at: "increment"), at: Self.key)
        }
    }

    private static func sum(_ current: Node, _ delta: Node) -> Node {
        if case .integer(let a) = current, case .integer(let b) = delta {
            let (sum, overflow) = a.addingReportingOverflow(b)
            if !overflow { return .integer(sum) }
        }
        guard let a = current.doubleValue, let b = delta.doubleValue else { return delta }
        // The sum of two finite doubles may be infinite, which no node can be: then the value stays.
        return (a + b).isFinite ? .number(a + b) : current
    }
}

extension Node {
    /// This node with one more child, which need not be legal in the database.
    fileprivate func setting(_ child: Node, at key: Key) -> Node {
        var node = self
        node.set(child, at: Path([key]))
        return node
    }
}

/// A value to be written, as a client sent it: a node with placeholders for server values.
package struct Draft: Equatable, Sendable {
    /// One placeholder: the node at `path` (relative to the draft), or its priority.
    package struct Placeholder: Equatable, Sendable {
        /// Relative to the draft.
        package var target: Target
        package var value: ServerValue

        package init(target: Target, value: ServerValue) {
            self.target = target
            self.value = value
        }
    }

    /// The value, with `.integer(0)` for each placeholder, so that its ancestors are not removed as empty: a
    /// resolved placeholder is never empty.
    package var node: Node
    /// Those in ``node``.
    package var placeholders: [Placeholder] = []
    /// Keys from the draft's root to its deepest leaf.
    package var depth = 0

    package init(_ node: Node, placeholders: [Placeholder] = [], depth: Int = 0) {
        self.node = node
        self.placeholders = placeholders
        self.depth = depth
    }

    /// The value as it was sent, with each server value as `{".sv": …}`. For printing: it cannot be stored,
    /// since `.sv` is not a legal key.
    /// - Complexity: O(placeholders × depth × log n).
    package var unresolved: Node {
        var result = node
        for placeholder in placeholders {
            let path = placeholder.target.path
            let current = result[path]
            guard placeholder.target.isPriority else {
                result.set(placeholder.value.spelled.with(priority: current.priority), at: path)
                continue
            }
            // A node's priority must be a number or a string, so this one is written as a child.
            let value = current.withoutPriority
            var printed = value
            if value.isLeaf || !value[ServerValue.key].isEmpty {
                printed = .empty.setting(value, at: ".value")
            }
            result.set(printed.setting(placeholder.value.spelled, at: ".priority"), at: path)
        }
        return result
    }

    /// The node to store.
    /// - Parameters:
    ///   - current: The node that the draft replaces. Evaluated only if there are placeholders.
    ///   - milliseconds: The time of the write, since 1970.
    /// - Complexity: O(1) without placeholders, else O(placeholders × depth × log n).
    package func resolved(current: @autoclosure () -> Node, milliseconds: Int64) -> Node {
        guard !placeholders.isEmpty else { return node }
        let current = current()
        var result = node
        for placeholder in placeholders {
            let path = placeholder.target.path
            let base = current[path]
            if placeholder.target.isPriority {
                let value = placeholder.value.resolved(
                    current: base.priority?.node ?? .empty, milliseconds: milliseconds)
                result.set(priority: value.doubleValue.map { .number($0) }, at: path)
            } else {
                let value = placeholder.value.resolved(current: base, milliseconds: milliseconds)
                result.set(value.with(priority: result[path].priority), at: path)
            }
        }
        return result
    }
}

extension Priority {
    /// The priority as a leaf.
    package var node: Node {
        switch self {
        case .number(let value): .number(value)
        case .string(let text): .string(text)
        }
    }

    /// A leaf as a priority: a number or a string; nil for anything else.
    package init?(_ node: Node) {
        switch node.withoutPriority {
        case .integer(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .string(let text): self = .string(text)
        case .empty, .boolean, .object, .prioritized: return nil
        }
    }
}
