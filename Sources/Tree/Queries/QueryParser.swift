import PandoBytes

// Parses the query object of a listen or get (realtime §7.1) to a canonical ``Query``.

extension Query {
    /// Reads a query object; unknown members are ignored. An object that is no valid query is noted in
    /// `reader.invalidData`.
    /// - Throws: ``MalformedJSON``.
    package init(reading reader: inout JSONReader) throws(MalformedJSON) {
        var fields = Fields()
        let start = reader.cursor.offset
        try reader.readObject { (reader, name) throws(MalformedJSON) in try fields.read(name, &reader) }
        self.init()
        guard reader.cursor.offset - start <= Limits.queryByteCount else {
            reader.note(.query("longer than \(Limits.queryByteCount) bytes"))
            return
        }
        do {
            try fields.fill(&self)
        } catch {
            reader.note(error)
        }
    }

    /// The members as they were sent, each nil when absent.
    private struct Fields {
        var index: Text?
        var equalities: [Equality] = []
        var startValue: Node?
        var startKey: Text?
        var startIsInclusive: Bool?
        var endValue: Node?
        var endKey: Text?
        var endIsInclusive: Bool?
        var limit: Node?
        var viewFrom: Text?
        var problem: InvalidData?

        mutating func read(_ name: Text, _ reader: inout JSONReader) throws(MalformedJSON) {
            switch name {
            case "i": index = try text(name, &reader)
            case "w": try readEqualities(&reader)
            case "sp": startValue = try leaf(name, &reader)
            case "sn": startKey = try text(name, &reader)
            case "sin": startIsInclusive = try boolean(name, &reader)
            case "ep": endValue = try leaf(name, &reader)
            case "en": endKey = try text(name, &reader)
            case "ein": endIsInclusive = try boolean(name, &reader)
            case "l": limit = try leaf(name, &reader)
            case "vf": viewFrom = try text(name, &reader)
            default: _ = try reader.skipValue()
            }
        }

        /// `{"country":"CH"}` (§7.6).
        private mutating func readEqualities(_ reader: inout JSONReader) throws(MalformedJSON) {
            equalities = []
            guard reader.peek() == UInt8(ascii: "{") else {
                _ = try reader.skipValue()
                problem = problem ?? .query("w must be an object")
                return
            }
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                guard let value = try leaf("w", &reader) else { return }
                guard equalities.count < Limits.orderFieldCount else {
                    problem = problem ?? .query("at most \(Limits.orderFieldCount) fields")
                    return
                }
                do throws(InvalidData) {
                    equalities.append(try Equality(field: Path(field: name), value: value))
                } catch {
                    problem = problem ?? error
                }
            }
        }

        private mutating func leaf(_ name: Text, _ reader: inout JSONReader) throws(MalformedJSON) -> Node? {
            let first = reader.peek()
            guard first != UInt8(ascii: "{"), first != UInt8(ascii: "[") else {
                _ = try reader.skipValue()
                problem = problem ?? .query("\(name) has the wrong type")
                return nil
            }
            return try reader.readLeaf()
        }

        private mutating func text(_ name: Text, _ reader: inout JSONReader) throws(MalformedJSON) -> Text? {
            switch try leaf(name, &reader) {
            case .string(let text)?: return text
            case .empty?, nil: return nil
            default:
                problem = problem ?? .query("\(name) must be a string")
                return nil
            }
        }

        private mutating func boolean(_ name: Text, _ reader: inout JSONReader) throws(MalformedJSON) -> Bool?
        {
            switch try leaf(name, &reader) {
            case .boolean(let value)?: return value
            case .empty?, nil: return nil
            default:
                problem = problem ?? .query("\(name) must be true or false")
                return nil
            }
        }

        func fill(_ query: inout Query) throws(InvalidData) {
            if let problem { throw problem }
            let (named, rest) =
                try index.map { name throws(InvalidData) in try Query.equalities(in: name) } ?? ([], "")
            query.order = try readIndex(index == nil ? nil : rest)
            query.start = try bound(
                startValue, startKey, startIsInclusive ?? true, query.order, isStart: true)
            query.end = try bound(endValue, endKey, endIsInclusive ?? true, query.order, isStart: false)
            if let limit {
                guard case .integer(let count) = limit, count >= 1, count <= Limits.queryLimit else {
                    throw .query("l must be an integer from 1 to \(Limits.queryLimit)")
                }
                query.limit = Limit(count: Int(count), anchor: try anchor())
            }
            try query.restrict(to: named + equalities)
        }

        private func anchor() throws(InvalidData) -> Anchor {
            switch viewFrom {
            case "l": return .first
            case "r": return .last
            // Legacy: a limit without `vf` counts from the start bound if there is one, else from the end.
            case nil: return startValue != nil ? .first : .last
            default: throw .query("vf must be \"l\" or \"r\"")
            }
        }

        private func readIndex(_ name: Text?) throws(InvalidData) -> ChildOrder {
            switch name {
            // By key, as REST without `orderBy`: there is no order of several fields that ends with
            // priorities.
            case nil where !equalities.isEmpty: return .key
            case nil, ".priority": return .priority
            case ".key": return .key
            case ".value": return .value
            case let text?:
                let path = try Path(wire: text)
                // C++ sends `/` for an empty child path.
                return path.isRoot ? .value : .child(path)
            }
        }

        private func bound(
            _ value: Node?, _ key: Text?, _ isInclusive: Bool, _ order: ChildOrder, isStart: Bool
        ) throws(InvalidData) -> Bound? {
            guard let value else { return nil }
            if order == .key {
                guard case .string(let text) = value else {
                    throw .query("a bound of an order by key must be a string")
                }
                return Bound(value: .empty, wire: text, isInclusive: isInclusive)
            }
            if let key {
                return Bound(value: value, wire: key, isInclusive: isInclusive)
            }
            // Without a key the bound is before all children of that value, or after all of them (§7.4).
            let isBefore = isStart == isInclusive
            return Bound(value: value, key: isBefore ? .lowest : .highest, isInclusive: true)
        }
    }
}

extension Bound {
    /// No child is at a sentinel, so such a bound is the same whether it is inclusive or not.
    fileprivate init(value: Node, wire text: Text, isInclusive: Bool) {
        let key = BoundKey(wire: text)
        if case .key = key {
            self.init(value: value, key: key, isInclusive: isInclusive)
        } else {
            self.init(value: value, key: key, isInclusive: true)
        }
    }
}

extension BoundKey {
    /// Parses a key of `sn`, `en` or a bound of the key index, which may be a sentinel (§7.1). Accepts keys
    /// of any length and characters (§7.2).
    package init(wire text: Text) {
        switch text {
        case "[MIN_NAME]", "[MIN_KEY]": self = .lowest
        case "[MAX_NAME]", "[MAX_KEY]": self = .highest
        default: self = .key(Key(unchecked: text))
        }
    }
}
