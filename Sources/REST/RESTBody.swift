import PandoBytes
import PandoHTTP
import PandoTree

// Request bodies (rest §1.5, §2, §6): JSON whatever `Content-Type` says.

/// The parsed body of a write.
package enum RESTBody: Equatable, Sendable {
    /// PUT and DELETE: the value of the request's target. POST: the value of the new child below it; an empty
    /// draft (`null`) gets a name and stores nothing (§2.2).
    case value(Draft)
    /// PATCH: done all together or not at all.
    case update(RESTUpdate)
}

/// The body of a PATCH.
package struct RESTUpdate: Equatable, Sendable {
    /// Its locations are from the root of the database. None is at or above another. May be empty.
    package var writes: [Write] = []
    /// The members' names as they were sent, one for each write. The response repeats them.
    package var names: [Text] = []

    package init() {}

    package mutating func append(_ write: Write, name: Text) {
        writes.append(write)
        names.append(name)
    }
}

extension RESTRequest {
    /// Reads the body of a write to data: of an upload its file. The body of a DELETE is ignored.
    /// - Parameters:
    ///   - bytes: The whole body. Its UTF-8 is checked here.
    ///   - byteLimit: A larger body is ``RESTError/writeTooLarge``, and so is one that would be larger in
    ///     memory, at ``DraftParser/nodeByteCount`` for each node.
    /// - Throws: ``RESTError``, 400.
    /// - Complexity: O(bytes).
    package func readBody(
        _ bytes: RawSpan, byteLimit: Int = RESTLimits.writeByteCount
    ) throws(RESTError) -> RESTBody {
        guard case .data(let target) = location else { throw .internalError }
        if method == .delete { return .value(Draft(.empty)) }
        guard bytes.byteCount <= byteLimit else { throw .writeTooLarge }
        let nodeLimit = Limits.nodeCount(writeByteLimit: byteLimit)
        guard isUpload else { return try readBody(bytes, at: target, nodeLimit: nodeLimit) }
        guard let uploadForm else { throw .malformedUpload }
        return try readBody(
            bytes.extracting(try uploadForm.file(in: bytes)), at: target, nodeLimit: nodeLimit)
    }

    private func readBody(
        _ bytes: RawSpan, at target: Target, nodeLimit: Int
    ) throws(RESTError) -> RESTBody {
        try withCursor(over: bytes) { (cursor) throws(RESTError) in
            var parser = BodyParser(cursor, nodeLimit: nodeLimit)
            switch method {
            case .put: return .value(try parser.readValue(at: target))
            case .post: return .value(try parser.readValue(at: target, levelsBetween: 1))
            case .patch: return .update(try parser.readUpdate(at: target.path))
            case .get, .head, .options, .delete: throw .internalError
            }
        }
    }
}

private struct BodyParser: ~Copyable {
    var drafts: DraftParser
    /// The first problem of an update's members that is not a syntax error.
    var problem: RESTError?

    init(_ cursor: ByteCursor, nodeLimit: Int) {
        drafts = DraftParser(JSONReader(cursor), nodeLimit: nodeLimit)
    }

    /// Reads the body of PUT or POST.
    /// - Parameter levelsBetween: The number of keys between the target and the value.
    mutating func readValue(at target: Target, levelsBetween: Int = 0) throws(RESTError) -> Draft {
        try expectData()
        let draft: Draft
        do throws(MalformedJSON) {
            draft = try drafts.readDraft()
            try drafts.reader.expectEnd()
        } catch {
            throw RESTError(error, isUpdate: false)
        }
        // The text for an illegal key is another one than that of PATCH (§11).
        if case .key = drafts.reader.invalidData { throw .malformedData }
        try check(draft, at: target, levelsBetween: levelsBetween)
        return draft
    }

    /// Reads the body of PATCH: an object whose names are paths below `base`, or `null` (§2.3).
    mutating func readUpdate(at base: Path) throws(RESTError) -> RESTUpdate {
        try expectData()
        let update: RESTUpdate
        do throws(MalformedJSON) {
            update = try readMembers(at: base)
            try drafts.reader.expectEnd()
        } catch {
            throw RESTError(error, isUpdate: true)
        }
        if let problem { throw problem }
        return try withoutOverlaps(update)
    }

    private mutating func expectData() throws(RESTError) {
        _ = drafts.reader.peek()
        guard !drafts.reader.cursor.isAtEnd else { throw .noData }
    }

    private mutating func readMembers(at base: Path) throws(MalformedJSON) -> RESTUpdate {
        var update = RESTUpdate()
        if drafts.reader.peek() == UInt8(ascii: "n") {
            // The official CLI deletes a node so (§2.3).
            try drafts.reader.expect(literal: "null")
            update.append(Write(Target(base), Draft(.empty)), name: "")
            return update
        }
        try drafts.reader.expect(UInt8(ascii: "{"))
        if drafts.reader.consume(UInt8(ascii: "}")) { return update }
        repeat {
            let name = try drafts.reader.readString()
            try drafts.reader.expect(UInt8(ascii: ":"))
            let draft = try drafts.readDraft()
            var memberCost = 0
            do throws(RESTError) {
                let target = try Self.target(name, below: base)
                try check(draft, at: target)
                memberCost = 1 + target.path.count
                update.append(Write(target, draft), name: name)
            } catch {
                problem = problem ?? error
            }
            try drafts.charge(memberCost)
        } while drafts.reader.consume(UInt8(ascii: ","))
        try drafts.reader.expect(UInt8(ascii: "}"))
        return update
    }

    /// Reads a name such as `a/b`. Slashes at its ends are ignored, and a final `.priority` names the
    /// priority.
    private static func target(_ name: Text, below base: Path) throws(RESTError) -> Target {
        var keys = base.keys
        var isPriority = false
        for segment in name.string.utf8.split(separator: UInt8(ascii: "/"), maxSplits: Limits.pathDepth + 2) {
            let segment = Text(String(Substring(segment)))
            guard !isPriority else { throw .malformedUpdate }
            if segment == ".priority" {
                isPriority = true
                continue
            }
            guard keys.count < Limits.pathDepth else { throw .invalidData(.tooDeep) }
            guard Key.isLegal(segment) else { throw .malformedUpdate }
            keys.append(Key(unchecked: segment))
        }
        guard isPriority || keys.count > base.count else { throw .malformedUpdate }
        return Target(Path(keys), isPriority: isPriority)
    }

    /// Checks the draft that was just read: the parser's notes, and what depends on its location.
    private func check(_ draft: Draft, at target: Target, levelsBetween: Int = 0) throws(RESTError) {
        if let problem = drafts.reader.invalidData { throw .invalidData(problem) }
        guard !drafts.droppedChildren else { throw .valueWithSiblings }
        if target.isPriority {
            let isPriority = draft.node.isEmpty || Priority(draft.node) != nil
            guard isPriority, draft.node.priority == nil else { throw .invalidData(.priority) }
        }
        guard target.path.count + levelsBetween + draft.depth <= Limits.pathDepth else {
            throw .invalidData(.tooDeep)
        }
    }

    /// Refuses two locations of which one is at or above the other (§2.3). A node and its own priority are
    /// such a pair, since the value sets the priority too.
    ///
    /// If a name occurs twice, the last one counts, as in a PUT and in an `m` of the realtime protocol
    /// (realtime §8.2).
    private func withoutOverlaps(_ update: RESTUpdate) throws(RESTError) -> RESTUpdate {
        let writes = update.writes
        let order = writes.indices.sorted { left, right in
            let order = Self.compare(writes[left].target, writes[right].target)
            return order != 0 ? order < 0 : left < right
        }
        var superseded: Set<Int> = []
        // In this order everything below a path follows it, its own priority first. So it is enough to
        // compare neighbours.
        for (earlier, later) in zip(order, order.dropFirst()) {
            let (upper, lower) = (writes[earlier].target, writes[later].target)
            if upper == lower, update.names[earlier] == update.names[later] {
                superseded.insert(earlier)
                continue
            }
            let overlaps = upper.isPriority ? upper == lower : upper.path.contains(lower.path)
            guard !overlaps else { throw .invalidData(.ancestorConflict(upper.path.wireText)) }
        }
        if superseded.isEmpty { return update }
        var rest = RESTUpdate()
        for index in writes.indices where !superseded.contains(index) {
            rest.append(writes[index], name: update.names[index])
        }
        return rest
    }

    /// The order of paths. A node comes before its own priority, and that before everything below.
    private static func compare(_ left: Target, _ right: Target) -> Int {
        let order = Path.compare(left.path, right.path)
        return order != 0 ? order : (left.isPriority ? 1 : 0) - (right.isPriority ? 1 : 0)
    }
}

extension RESTError {
    /// The error for malformed JSON.
    fileprivate init(_ problem: MalformedJSON, isUpdate: Bool) {
        switch problem {
        case .tooDeep: self = .invalidData(.tooDeep)
        case .tooManyNodes: self = .writeTooLarge
        case .unexpected: self = isUpdate ? .malformedUpdate : .malformedData
        }
    }
}
