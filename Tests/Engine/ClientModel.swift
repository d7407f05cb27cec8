import PandoBytes
import PandoEngine
import PandoTree

/// What one connection's client holds, and how pushes change it (realtime §5.1, §5.2, §7.5).
struct ClientModel {
    /// Default listens: each holds its location, whole.
    var defaults: [[String]: Value] = [:]
    /// Filtered listens by tag: each holds its window.
    var windows: [Int64: (path: [String], query: NaiveQuery, cache: Value)] = [:]
    /// SDKs apply untagged data to their filtered views as well; the server must not rely on it (§6.4), and
    /// must not be confused by it. So half of the clients do.
    var appliesUntaggedToWindows = false
    /// The order in which a client takes the entries of a merge is its own affair: half of ours go backwards.
    var goesBackwards = false

    /// Applies one message. In a window, children that are held already come first, the rest second, as in
    /// the SDKs.
    mutating func receive(_ entries: [(path: [String], value: Value)], tag: Int64?) {
        let ascending = entries.sorted { $0.path.slashed < $1.path.slashed }
        let entries = goesBackwards ? ascending.reversed() : ascending
        if let tag {
            apply(entries, toWindow: tag)
            return
        }
        for (location, cache) in defaults {
            var cache = cache
            for (path, value) in entries {
                if location.contains(path) {
                    cache = cache.putting(value, at: Array(path.dropFirst(location.count)))
                } else if path.contains(location) {
                    cache = value[Array(location.dropFirst(path.count))]
                }
            }
            defaults[location] = cache
        }
        if appliesUntaggedToWindows { for tag in windows.keys { apply(entries, toWindow: tag) } }
    }

    private mutating func apply(_ entries: [(path: [String], value: Value)], toWindow tag: Int64) {
        guard let (location, query, held) = windows[tag] else { return }
        var cache = held
        func isKnown(_ path: [String]) -> Bool {
            path.count > location.count && cache.children[path[location.count]] != nil
        }
        for (path, value) in entries.filter({ isKnown($0.path) }) + entries.filter({ !isKnown($0.path) }) {
            if location.contains(path) {
                let rest = Array(path.dropFirst(location.count))
                // Deep data for a child that the client does not hold is ignored.
                if rest.count > 1, cache.children[rest[0]] == nil { continue }
                if rest == [".priority"] { continue }
                cache = cache.putting(value, at: rest)
            } else if path.contains(location) {
                cache = value[Array(location.dropFirst(path.count))]
            } else {
                continue
            }
            cache = query.filter(cache)
        }
        windows[tag]?.cache = cache
    }
}

extension Value {
    init(_ node: Node) {
        let priority = node.priority.map { Scalar($0.node) }
        switch node.withoutPriority {
        case .empty: self = .nothing
        case .object(let children):
            var members: [String: Value] = [:]
            children.forEach { key, child in
                members[key.string] = Value(child)
                return true
            }
            self = .object(members, priority: priority)
        case let leaf: self = .leaf(Scalar(leaf), priority: priority)
        }
    }
}

extension Scalar {
    fileprivate init(_ leaf: Node) {
        switch leaf {
        case .boolean(let value): self = .boolean(value)
        case .integer(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .string(let text): self = .string(text.string)
        case .empty, .object, .prioritized: preconditionFailure("no leaf: \(leaf)")
        }
    }
}

extension Push.Body {
    /// The locations that the push names, absolute.
    var entries: [(path: [String], value: Value)] {
        switch self {
        case .overwrite(let path, let node): [(path.strings, Value(node))]
        case .merge(let base, let entries): entries.map { (base.strings + $0.path.strings, Value($0.node)) }
        case .rangeMerge, .initial, .listens: []
        }
    }
}

extension Path {
    var strings: [String] { keys.map(\.string) }
}
