import PandoBytes

/// By what a query orders children (realtime §7.1, §7.3).
package enum ChildOrder: Hashable, Sendable {
    case priority
    case key
    case value
    /// By the node at this path below each child.
    case child(Path)
    /// By the nodes at several paths below each child, one after the other (§7.6): all but the last in
    /// ascending order, since queries fix their values. From two up to ``Limits/orderFieldCount``, all
    /// different.
    case compound([Path])

    /// The value by which a child is ordered, without its priority. `.empty` where there is none, and with
    /// the key index. O(depth × log n).
    package func value(of child: Node) -> Node {
        switch self {
        case .key: .empty
        case .value: child.withoutPriority
        case .priority: child.priority?.node ?? .empty
        case .child(let path): child[path].withoutPriority
        case .compound(let paths): CompoundValue.value(of: child, by: paths)
        }
    }

    /// Parses a declaration of several fields, `country+score` (rules §10). All but the last are in any
    /// order.
    /// - Throws: ``InvalidData`` for fewer than two fields or more than ``Limits/orderFieldCount``, one that
    ///   is named twice, and one that is no path of a child.
    package init(compound name: Text) throws(InvalidData) {
        var fields: [Path] = []
        for part in name.string.utf8.split(separator: UInt8(ascii: "+"), omittingEmptySubsequences: false) {
            fields.append(try Path(field: Text(String(Substring(part)))))
            guard fields.count <= Limits.orderFieldCount else {
                throw .query("at most \(Limits.orderFieldCount) fields")
            }
        }
        guard fields.count > 1 else { throw .query("at least two fields") }
        guard Set(fields).count == fields.count else { throw .query("a field is named twice") }
        self = .compound(fields.dropLast().sorted() + [fields[fields.count - 1]])
    }

    /// As rules declare it (rules §10): `a/b`, `.value`, `country+score`. Nil for the key index, and for the
    /// one by priority, which need no declaration.
    package var declaredName: String? {
        switch self {
        case .key, .priority: nil
        case .value: ".value"
        case .child(let path): path.wireText
        case .compound(let paths): paths.map(\.wireText).joined(separator: "+")
        }
    }
}
