import PandoBytes

/// JSON to ``Draft``, straight from bytes: no dictionaries in between (realtime §8.2, §10). Data that
/// cannot be stored is noted in `reader.invalidData`.
///
/// Most of what is written is one string or number: that is read here, and arrays and objects by whom they
/// need (``StructureParser``), who is made with the first of them.
package struct DraftParser {
    package var reader: JSONReader
    private var structures: StructureParser?
    /// True when a `.value` or `.sv` of the last draft stood beside children, which gave way to it (§8.2).
    /// REST refuses that.
    package private(set) var droppedChildren = false
    /// Drafts are passed over, and come out empty: for who wants to know what stands around them.
    package var skipsContent = false
    /// For all drafts together.
    private var budget: NodeBudget

    /// What a node takes in memory beside its text: an entry of its parent's page (40 bytes), and its part of
    /// the page and of the growth of arrays. Text may be shorter: `[0,0,…]` spends two bytes on each.
    package static let nodeByteCount = 64

    /// - Parameter nodeLimit: Most nodes that all drafts together may have; more are
    ///   ``MalformedJSON/tooManyNodes(byteOffset:)``.
    package init(_ reader: JSONReader, nodeLimit: Int = .max) {
        self.reader = reader
        budget = NodeBudget(left: nodeLimit)
    }

    /// Counts what a draft makes besides its nodes, in nodes.
    package mutating func charge(_ nodeCount: Int) throws(MalformedJSON) {
        try budget.charge(nodeCount, at: reader.cursor.offset)
    }

    /// Reads one value. The reader has moved behind it, and may hold an ``InvalidData``: then the draft is
    /// void.
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
        // Moved there and back: of two that share what a string is unescaped in, each would make its own.
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

    /// Takes back what was lent.
    private mutating func end(_ parser: inout StructureParser) {
        swap(&parser.reader, &reader)
        (budget, droppedChildren) = (parser.budget, parser.droppedChildren)
        structures = parser
    }
}

/// Nodes that may still come.
struct NodeBudget {
    var left: Int

    mutating func charge(_ nodeCount: Int, at byteOffset: Int) throws(MalformedJSON) {
        left -= nodeCount
        guard left >= 0 else { throw .tooManyNodes(byteOffset: byteOffset) }
    }
}

extension JSONReader {
    /// Reads a leaf that is to be stored, or null.
    mutating func readStoredLeaf() throws(MalformedJSON) -> Node {
        let leaf = try readLeaf()
        if case .string(let text) = leaf, text.utf8Count > Limits.stringByteCount { note(.stringTooLong) }
        return leaf
    }
}

extension Node {
    /// Reads a whole JSON text as data without server values: imports, journal records, tests.
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
