import PandoBytes
import PandoTree

// `m` and `om` (realtime §4.6, §12.1): a base path, and an object whose names are paths below it.

extension MessageParser {
    mutating func readMerge(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        var base = Field<Path>.absent
        var data: Range<Int>?
        // The entries of `data`, read with the current `base`.
        var entries: Field<[Write]>?
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .p:
                base = try parser.readPath()
                entries = nil
            case .d:
                let start = parser.startOfValue()
                if case .value(let path) = base {
                    entries = try parser.readEntries(below: path)
                } else {
                    entries = nil
                    try parser.skip()
                }
                data = start..<parser.offset
            default: try parser.skip()
            }
        }
        if entries == nil, let data, case .value(let path) = base {
            entries = try reread(data) { (parser) throws(MalformedJSON) in try parser.readEntries(below: path)
            }
        }
        return action(actionName) { () throws(FieldError) in
            let base = try base.required("p")
            let entries = try (entries ?? .absent).required("d")
            return actionName == .merge ? .merge(base, entries) : .onDisconnectMerge(base, entries)
        }
    }

    /// Reads an object whose names are paths below `base`.
    private mutating func readEntries(below base: Path) throws(MalformedJSON) -> Field<[Write]> {
        guard peek() == UInt8(ascii: "{") else {
            try skip()
            return .invalid(.notAnObject)
        }
        let start = offset
        var entries: [Write] = []
        var problem: InvalidData?
        var keyCount = 0
        try drafts.reader.expect(UInt8(ascii: "{"))
        if !drafts.reader.consume(UInt8(ascii: "}")) {
            repeat {
                // A name that is not a string is malformed, as in any object.
                guard peek() == UInt8(ascii: "\"") else { throw drafts.reader.unexpected() }
                let target = try readTarget(below: base)
                try drafts.reader.expect(UInt8(ascii: ":"))
                let draft = try readDraft()
                do throws(FieldError) {
                    let entry = Write(try target.required("d"), try draft.required("d"))
                    // A name without keys, such as `/`, is the base itself, whose siblings are none of it.
                    guard entry.target.isPriority || entry.target.path.count > base.count else {
                        throw .invalid(.key(""))
                    }
                    try Self.check(entry.draft, at: entry.target)
                    keyCount += entry.target.path.count + 1
                    if keyCount > Limits.mergeKeyCount {
                        problem = problem ?? .tooManyPaths
                        // They are refused: free their memory.
                        entries.removeAll()
                        continue
                    }
                    entries.append(entry)
                } catch {
                    // A field that was just read is neither missing nor of the wrong type.
                    if case .invalid(let reason) = error, problem == nil { problem = reason }
                }
            } while drafts.reader.consume(UInt8(ascii: ","))
            try drafts.reader.expect(UInt8(ascii: "}"))
        }
        if let problem { return .invalid(problem) }
        return try checkOverlaps(entries, start..<offset)
    }

    // MARK: A path and its ancestor

    /// Refuses entries of which one is at the target of another or above it (§4.6). `a` and `a/.priority` are
    /// such a pair: the value of `a` sets or removes its priority (§8.4), so the two would conflict. Clients
    /// refuse them, too, by the text of the paths. `a/b` and `a/.priority` are allowed.
    ///
    /// Two equal names are a duplicate member, of which the last one counts.
    private mutating func checkOverlaps(
        _ entries: [Write], _ data: Range<Int>
    ) throws(MalformedJSON) -> Field<[Write]> {
        guard entries.count > 1 else { return .value(entries) }
        var order: [Int]?
        if !Self.isAscending(entries) {
            order = entries.indices.sorted { left, right in
                let order = Self.compare(entries[left].target, entries[right].target)
                return order != 0 ? order < 0 : left < right
            }
        }
        // In this order all descendants of a path follow it directly, so it is enough to compare neighbours.
        var overruled: Set<Int> = []
        var names: [Text]?
        for place in 1..<entries.count {
            let (earlier, later) = (order?[place - 1] ?? place - 1, order?[place] ?? place)
            let (upper, lower) = (entries[earlier].target, entries[later].target)
            if upper == lower {
                if names == nil { names = try readNames(data) }
                if let names, names[earlier] == names[later] {
                    overruled.insert(earlier)
                    continue
                }
            } else if upper.isPriority || !upper.path.contains(lower.path) {
                continue
            }
            return .invalid(.ancestorConflict(upper.path.wireText))
        }
        if overruled.isEmpty { return .value(entries) }
        return .value(entries.indices.filter { !overruled.contains($0) }.map { entries[$0] })
    }

    /// Orders by path; a node comes before its own priority, and that before its descendants.
    private static func compare(_ left: Target, _ right: Target) -> Int {
        let order = Path.compare(left.path, right.path)
        return order != 0 ? order : (left.isPriority ? 1 : 0) - (right.isPriority ? 1 : 0)
    }

    private static func isAscending(_ entries: [Write]) -> Bool {
        for index in 1..<entries.count where compare(entries[index - 1].target, entries[index].target) > 0 {
            return false
        }
        return true
    }

    /// The names of an object's members, unescaped, in their order.
    private mutating func readNames(_ object: Range<Int>) throws(MalformedJSON) -> [Text] {
        try reread(object) { (parser) throws(MalformedJSON) in
            var names: [Text] = []
            try parser.drafts.reader.readObject { (reader, name) throws(MalformedJSON) in
                names.append(name)
                _ = try reader.skipValue(depth: -8)
            }
            return names
        }
    }
}
