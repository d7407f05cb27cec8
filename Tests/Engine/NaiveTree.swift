// The truth as plain nested dictionaries, written from the specification alone: slow, and simple enough to
// believe.

/// A leaf's value, a priority, or a query's bound.
enum Scalar: Hashable {
    case boolean(Bool)
    case number(Double)
    case string(String)

    var json: String {
        switch self {
        case .boolean(let value): "\(value)"
        case .number(let value): value == value.rounded() ? "\(Int64(value))" : "\(value)"
        case .string(let text): "\"\(text)\""
        }
    }
}

/// A node (realtime §8.1): nothing, a leaf, or an object of at least one child.
indirect enum Value: Hashable {
    case nothing
    case leaf(Scalar, priority: Scalar?)
    case object([String: Value], priority: Scalar?)

    var priority: Scalar? {
        switch self {
        case .nothing: nil
        case .leaf(_, let priority), .object(_, let priority): priority
        }
    }

    var children: [String: Value] {
        if case .object(let children, _) = self { children } else { [:] }
    }

    var isLeaf: Bool { if case .leaf = self { true } else { false } }

    var number: Double? {
        if case .leaf(.number(let value), _) = self { value } else { nil }
    }

    static func make(_ children: [String: Value], priority: Scalar? = nil) -> Value {
        let kept = children.filter { $0.value != .nothing }
        return kept.isEmpty ? .nothing : .object(kept, priority: priority)
    }

    func with(priority: Scalar?) -> Value {
        switch self {
        case .nothing: .nothing
        case .leaf(let value, _): .leaf(value, priority: priority)
        case .object(let children, _): .object(children, priority: priority)
        }
    }

    subscript(path: [String]) -> Value {
        path.reduce(self) { $0.children[$1] ?? .nothing }
    }

    /// §8.4. A final `.priority` sets the priority; on a missing node it does nothing.
    func putting(_ new: Value, at path: [String]) -> Value {
        guard let key = path.first else { return new }
        if key == ".priority" {
            if case .leaf(let scalar, _) = new { return with(priority: scalar) }
            return with(priority: nil)
        }
        let rest = Array(path.dropFirst())
        if isLeaf, self[[key]].putting(new, at: rest) == .nothing { return self }
        var children = children
        children[key] = (children[key] ?? .nothing).putting(new, at: rest)
        return .make(children, priority: priority)
    }

    /// What a path that may end in `.priority` holds.
    func value(at path: [String]) -> Value {
        guard path.last == ".priority" else { return self[path] }
        return self[path.dropLast()].priority.map { .leaf($0, priority: nil) } ?? .nothing
    }
}

extension [String] {
    func contains(_ other: [String]) -> Bool { other.starts(with: self) }
    var slashed: String { joined(separator: "/") }
}

// MARK: - Order and queries

/// §7.3: integers by value, then text. (Keys here are ASCII.)
func keyPrecedes(_ left: String, _ right: String) -> Bool {
    switch (Int32(left), Int32(right)) {
    case (let a?, let b?): a != b ? a < b : left.utf8.count < right.utf8.count
    case (_?, nil): true
    case (nil, _?): false
    case (nil, nil): left < right
    }
}

/// What a query orders by, as a rank and a scalar (§7.3).
func indexPrecedes(_ left: Value, _ right: Value) -> Bool {
    func rank(_ value: Value) -> Int {
        switch value {
        case .nothing: 0
        case .leaf(.boolean(false), _): 1
        case .leaf(.boolean(true), _): 2
        case .leaf(.number, _): 3
        case .leaf(.string, _): 4
        case .object: 5
        }
    }
    if rank(left) != rank(right) { return rank(left) < rank(right) }
    switch (left, right) {
    case (.leaf(.number(let a), _), .leaf(.number(let b), _)): return a < b
    case (.leaf(.string(let a), _), .leaf(.string(let b), _)): return a < b
    default: return false
    }
}

/// A query in the shape that its tests think in.
struct NaiveQuery: Hashable {
    enum Order: Hashable { case priority, key, value, child(String) }

    var order = Order.priority
    /// Inclusive, without a key; under `.key` a string.
    var start: Scalar?
    var end: Scalar?
    var limit: Int?
    var isLast = false

    func filter(_ value: Value) -> Value {
        func index(_ child: Value, _ key: String) -> Value {
            switch order {
            case .priority: child.priority.map { .leaf($0, priority: nil) } ?? .nothing
            case .key: .nothing
            case .value: child.with(priority: nil)
            case .child(let name): child[[name]].with(priority: nil)
            }
        }
        func isInRange(_ key: String, _ child: Value) -> Bool {
            if order == .key {
                if case .string(let start)? = start, keyPrecedes(key, start) { return false }
                if case .string(let end)? = end, keyPrecedes(end, key) { return false }
                return true
            }
            let value = index(child, key)
            if let start, indexPrecedes(value, .leaf(start, priority: nil)) { return false }
            if let end, indexPrecedes(.leaf(end, priority: nil), value) { return false }
            return true
        }
        var kept = value.children.filter { isInRange($0.key, $0.value) }.sorted { left, right in
            let (a, b) = (index(left.value, left.key), index(right.value, right.key))
            if indexPrecedes(a, b) { return true }
            if indexPrecedes(b, a) { return false }
            return keyPrecedes(left.key, right.key)
        }
        if let limit { kept = Array(isLast ? kept.suffix(limit) : kept.prefix(limit)) }
        return .make(Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) }))
    }
}

// MARK: - Drafts

/// A value as a client writes it, server values included (§10).
indirect enum Sketch {
    enum Operation { case timestamp, increment(Double) }
    enum Special { case scalar(Scalar), server(Operation) }

    case nothing
    case leaf(Special, priority: Special?)
    case object([String: Sketch], priority: Special?)

    var isLeaf: Bool { if case .leaf = self { true } else { false } }

    var json: String {
        func text(_ special: Special) -> String {
            switch special {
            case .scalar(let scalar): scalar.json
            case .server(.timestamp): #"{".sv":"timestamp"}"#
            case .server(.increment(let by)): #"{".sv":{"increment":\#(Scalar.number(by).json)}}"#
            }
        }
        switch self {
        case .nothing: return "null"
        case .leaf(let value, nil): return text(value)
        case .leaf(let value, let priority?):
            return #"{".value":\#(text(value)),".priority":\#(text(priority))}"#
        case .object(let children, let priority):
            var members = children.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value.json)" }
            if let priority { members.append(#"".priority":\#(text(priority))"#) }
            return "{\(members.joined(separator: ","))}"
        }
    }

    /// The value to store, where `current` is what it replaces.
    func resolved(_ current: Value, time: Int64) -> Value {
        func scalar(_ special: Special, _ base: Value) -> Scalar {
            switch special {
            case .scalar(let scalar): scalar
            case .server(.timestamp): .number(Double(time))
            case .server(.increment(let by)): .number((base.number ?? 0) + by)
            }
        }
        let oldPriority: Value = current.priority.map { .leaf($0, priority: nil) } ?? .nothing
        switch self {
        case .nothing: return .nothing
        case .leaf(let value, let priority):
            return .leaf(scalar(value, current), priority: priority.map { scalar($0, oldPriority) })
        case .object(let children, let priority):
            let resolved = children.map { ($0.key, $0.value.resolved(current[[$0.key]], time: time)) }
            return .make(
                Dictionary(uniqueKeysWithValues: resolved), priority: priority.map { scalar($0, oldPriority) }
            )
        }
    }

    /// The sketch as a tree has it: nothing is kept of empty objects.
    var pruned: Sketch {
        guard case .object(let children, let priority) = self else { return self }
        let kept = children.mapValues(\.pruned).filter { if case .nothing = $0.value { false } else { true } }
        return kept.isEmpty ? .nothing : .object(kept, priority: priority)
    }

    /// `updateChild` of the SDKs' nodes, on values with placeholders.
    func putting(_ new: Sketch, at path: [String]) -> Sketch {
        guard let key = path.first else { return new.pruned }
        if key == ".priority" {
            var priority: Special?
            if case .leaf(let value, _) = new { priority = value }
            switch self {
            case .nothing: return .nothing
            case .leaf(let value, _): return .leaf(value, priority: priority)
            case .object(let children, _): return .object(children, priority: priority)
            }
        }
        var members: [String: Sketch] = [:]
        var priority: Special?
        switch self {
        case .nothing: break
        case .leaf(_, let own): priority = own
        case .object(let children, let own): (members, priority) = (children, own)
        }
        let child = (members[key] ?? .nothing).putting(new, at: Array(path.dropFirst())).pruned
        if isLeaf, case .nothing = child { return self }
        members[key] = child
        return Sketch.object(members, priority: priority).pruned
    }
}

// MARK: - The SDKs' sparse tree (§12.1)

/// What a client remembers to do on disconnect: a value here, or more below.
final class SparseTree {
    var value: Sketch?
    var children: [String: SparseTree] = [:]

    func remember(_ path: [String], _ new: Sketch) {
        if path.isEmpty {
            value = new.pruned
            children = [:]
        } else if let value {
            self.value = value.putting(new, at: path)
        } else {
            let child = children[path[0]] ?? SparseTree()
            children[path[0]] = child
            child.remember(Array(path.dropFirst()), new)
        }
    }

    /// True when nothing is left here.
    func forget(_ path: [String]) -> Bool {
        if path.isEmpty {
            value = nil
            children = [:]
            return true
        }
        if let value {
            if value.isLeaf { return false }
            self.value = nil
            if case .object(let members, _) = value {
                for (key, member) in members { remember([key], member) }
            }
            return forget(path)
        }
        guard let child = children[path[0]] else { return children.isEmpty }
        if child.forget(Array(path.dropFirst())) { children[path[0]] = nil }
        return children.isEmpty
    }

    /// Everything remembered, by path.
    var all: [(path: [String], value: Sketch)] {
        if let value { return [([], value)] }
        return children.sorted { keyPrecedes($0.key, $1.key) }.flatMap { key, child in
            child.all.map { ([key] + $0.path, $0.value) }
        }
    }
}

// MARK: - Writes

extension Value {
    /// Several puts as one (§4.6, §8.4): each against the tree before, and an ancestor that ends up with
    /// children never was without.
    func merging(_ writes: [(path: [String], value: Sketch)], time: Int64) -> Value {
        let resolved = writes.map { ($0.path, $0.value.resolved(value(at: $0.path), time: time)) }
        func rank(_ write: ([String], Value)) -> Int {
            write.0.last == ".priority" ? 2 : write.1 == .nothing ? 1 : 0
        }
        var result = self
        for turn in 0...2 {
            for write in resolved where rank(write) == turn { result = result.putting(write.1, at: write.0) }
        }
        return result
    }
}
