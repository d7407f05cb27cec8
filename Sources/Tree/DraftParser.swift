import PandoBytes

/// Parses JSON to ``Draft``s, directly from bytes (realtime §8.2, §10). Data that cannot be stored is
/// noted in `reader.invalidData`.
///
/// Most drafts are one string or number, which is read here. Arrays and objects are read by a
/// ``StructureParser``, which is made for the first of them.
package struct DraftParser: ~Copyable {
    /// Reads the tokens. Callers use it for what is around the drafts.
    package var reader: JSONReader
    private var structures: StructureParser?
    /// Whether the last draft had children next to a `.value` or `.sv`, which were dropped (§8.2). REST
    /// refuses that.
    package private(set) var droppedChildren = false
    /// Whether drafts are skipped and read as `.empty`: to read only what is around them.
    package var skipsContent = false
    /// Of all drafts together.
    private var budget: NodeBudget
    /// Never read: see ``PassedByAddress``.
    private let passing = PassedByAddress()

    /// Bytes of memory of a node without its text: an entry in its parent's page (40 bytes), and its part of
    /// the page's header and of unused array capacity. Its JSON may be shorter: in `[0,0,…]` a node has two
    /// bytes.
    package static let nodeByteCount = 64

    /// - Parameter nodeLimit: Most nodes that all drafts together may have; more are
    ///   ``MalformedJSON/tooManyNodes(byteOffset:)``.
    package init(_ reader: JSONReader, nodeLimit: Int = .max) {
        self.reader = reader
        budget = NodeBudget(left: nodeLimit)
    }

    /// Counts memory that the caller uses for a draft, in nodes.
    /// - Throws: ``MalformedJSON/tooManyNodes(byteOffset:)``.
    package mutating func charge(_ nodeCount: Int) throws(MalformedJSON) {
        try budget.charge(nodeCount, at: reader.cursor.offset)
    }

    /// Reads one value, and moves the reader behind it. If `reader.invalidData` is set afterwards, the draft
    /// must not be used.
    /// - Throws: ``MalformedJSON``.
    /// - Complexity: O(bytes), plus sorting of objects that are not in key order.
    package mutating func readDraft() throws(MalformedJSON) -> Draft {
        if skipsContent {
            droppedChildren = false
            _ = try reader.skipValue()
            return Draft(.empty)
        }
        let first = reader.peek()
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") { return try readStructure() }
        droppedChildren = false
        return Draft(try reader.readStoredLeaf())
    }

    private mutating func readStructure() throws(MalformedJSON) -> Draft {
        var parser = structures.take() ?? StructureParser(reader.cursor)
        // Moved to the other parser and back: two readers that share the buffer for unescaped strings would
        // copy it.
        swap(&parser.reader, &reader)
        parser.budget = budget
        do throws(MalformedJSON) {
            let draft = try parser.readDraft()
            end(&parser)
            return draft
        } catch {
            end(&parser)
            throw error
        }
    }

    /// Moves the reader back.
    private mutating func end(_ parser: inout StructureParser) {
        swap(&parser.reader, &reader)
        (budget, droppedChildren) = (parser.budget, parser.droppedChildren)
        structures = parser
    }
}

extension JSONReader {
    /// Reads a leaf that will be stored, or null. Notes a string that is too long.
    mutating func readStoredLeaf() throws(MalformedJSON) -> Node {
        let leaf = try readLeaf()
        if case .string(let text) = leaf, text.utf8Count > Limits.stringByteCount { note(.stringTooLong) }
        return leaf
    }
}

extension Node {
    /// Reads a complete JSON text as data without server values: for imports, journal records, tests.
    /// - Parameter pathDepth: Segments of the path where the data goes.
    /// - Throws: ``MalformedJSON`` or ``InvalidData``.
    package init(json bytes: RawSpan, at pathDepth: Int = 0) throws {
        self = try withCursor(over: bytes) { cursor in
            var parser = DraftParser(JSONReader(cursor))
            let draft = try parser.readDraft()
            try parser.reader.expectEnd()
            if let problem = parser.reader.invalidData { throw problem }
            guard pathDepth + draft.depth <= Limits.pathDepth else { throw InvalidData.tooDeep }
            guard draft.placeholders.isEmpty else { throw InvalidData.serverValue }
            return draft.node
        }
    }
}
