import PandoBytes
import PandoHTTP
import PandoTree

/// What `GET /.inspect/children.json` asks for (rest §10): a location, and one page of its children by their
/// place in key order, each with its kind and size in place of its data.
///
/// So a list of any length can be shown by parts, with a scroll bar: a page takes O(log n + its length),
/// however large the children are.
package struct ChildListing: Equatable, Sendable {
    package let path: Path
    private let offset: Int
    /// Where it is given, the page begins with the first child from this key on, in place of `offset`.
    private let start: Key?
    private let limit: Int
    /// The nodes at and below the location are counted, too.
    private let isMeasured: Bool

    /// Children of one page, with and without the parameter `limit`.
    static let limitMaximum = 1000
    static let standardLimit = 100
    /// Bytes of a string that are shown.
    static let shownByteCount = 512
    /// Children of an object that are shown in its preview, and bytes of their keys and strings there.
    static let previewedCount = 4
    static let previewedByteCount = 48
    /// Nodes that are counted at most: a few milliseconds of a worker.
    static let countedNodeLimit = 100_000

    /// Reads the parameters `path`, `offset`, `from`, `limit` and `measure`.
    /// - Parameter mayMeasure: The client is an administrator: others get no count of all nodes.
    /// - Throws: ``RESTError/invalidPath``, ``RESTError/pathTooDeep``, or an error of limits.
    package init(_ request: RESTRequest, mayMeasure: Bool) throws(RESTError) {
        try self.init(request.address.parameters, mayMeasure: mayMeasure)
    }

    init(_ parameters: QueryString, mayMeasure: Bool = true) throws(RESTError) {
        do throws(InvalidData) {
            path = try Path(wire: parameters["path"] ?? "")
        } catch {
            throw error == .tooDeep ? .pathTooDeep : .invalidPath
        }
        if let text = parameters["from"], !text.isEmpty {
            guard let key = text.withBytes({ Key(legal: $0) }) else { throw .invalidPath }
            start = key
        } else {
            start = nil
        }
        offset = try Self.number(parameters["offset"], atLeast: 0) ?? 0
        limit = min(try Self.number(parameters["limit"], atLeast: 1) ?? Self.standardLimit, Self.limitMaximum)
        isMeasured = mayMeasure && parameters["measure"] == "true"
    }

    private static func number(_ text: Text?, atLeast minimum: Int) throws(RESTError) -> Int? {
        guard let text else { return nil }
        guard let number = text.asciiString.flatMap({ Int($0) }) else { throw .limitNotInteger(.first) }
        guard number >= minimum else { throw .limitNotPositive(.first) }
        return number
    }

    /// `{"kind":…,"count":…,"offset":…,"children":[{"key":…,"kind":…,…},…]}`; an object among the children
    /// has a `preview` of its first children.
    /// - Parameter root: Of the database.
    /// - Complexity: O(log n + page), some milliseconds for the longest; with `measure`
    ///   O(``countedNodeLimit``) besides.
    package func json(of root: Node) -> [UInt8] {
        let node = root[path]
        var output: [UInt8] = []
        output.append("{")
        output.append(summary: node)
        if isMeasured {
            var left = Self.countedNodeLimit
            node.countDown(&left)
            output.append(",\"nodes\":")
            output.append(decimal: Int64(Self.countedNodeLimit - max(0, left)))
            if left < 0 { output.append(",\"more\":true") }
        }
        guard case .object(let children) = node.withoutPriority else {
            output.append("}")
            return output
        }
        let first = min(start.map(children.rank(of:)) ?? offset, children.count)
        output.append(",\"offset\":")
        output.append(decimal: Int64(first))
        output.append(",\"children\":[")
        if let key = children.key(at: first) {
            var count = 0
            children.forEach(from: key) { key, child in
                if count > 0 { output.append(",") }
                output.append("{\"key\":")
                output.append(jsonName: key)
                output.append(",")
                output.append(summary: child)
                output.append(preview: child)
                output.append("}")
                count += 1
                return count < limit
            }
        }
        output.append("]}")
        return output
    }
}

extension Node {
    /// Subtracts the nodes at and below this one, until `left` is negative.
    /// - Returns: Whether it is negative.
    @discardableResult
    fileprivate func countDown(_ left: inout Int) -> Bool {
        switch withoutPriority {
        case .empty: return left < 0
        case .object(let children):
            left -= 1
            return left < 0 || !children.forEach { _, child in !child.countDown(&left) }
        default:
            left -= 1
            return left < 0
        }
    }
}

extension [UInt8] {
    /// Appends the members that describe a node: `kind`; the `count` of an object's children; the `value` of
    /// a leaf; the `length` in bytes of a string that is shown in part; `priority` where there is one.
    fileprivate mutating func append(summary node: Node) {
        append("\"kind\":")
        switch node.withoutPriority {
        case .object(let children):
            append("\"object\",\"count\":")
            append(decimal: Int64(children.count))
        case .string(let text):
            append("\"string\",\"value\":")
            append(json: text.prefix(byteCount: ChildListing.shownByteCount))
            if text.utf8Count > ChildListing.shownByteCount {
                append(",\"length\":")
                append(decimal: Int64(text.utf8Count))
            }
        case .empty, .prioritized: append("\"null\"")
        case .boolean: append("\"boolean\",\"value\":")
        case .integer, .double: append("\"number\",\"value\":")
        }
        switch node.withoutPriority {
        case .boolean, .integer, .double: append(json: node.withoutPriority)
        case .empty, .object, .string, .prioritized: break
        }
        if let priority = node.priority {
            append(",\"priority\":")
            append(json: priority.node)
        }
    }

    /// Appends the first children of an object as `preview`: leaves with their values, objects as `{}`.
    fileprivate mutating func append(preview node: Node) {
        guard case .object(let children) = node.withoutPriority else { return }
        append(",\"preview\":{")
        var count = 0
        children.forEach { key, child in
            guard key.utf8Count <= ChildListing.previewedByteCount else { return false }
            if count > 0 { append(",") }
            append(jsonName: key)
            append(":")
            switch child.withoutPriority {
            case .object: append("{}")
            case .string(let text): append(json: text.prefix(byteCount: ChildListing.previewedByteCount))
            case let leaf: append(json: leaf)
            }
            count += 1
            return count < ChildListing.previewedCount
        }
        append("}")
    }
}
