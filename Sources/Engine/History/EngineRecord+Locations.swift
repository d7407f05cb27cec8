import PandoBytes
import PandoTree

// Which locations a record changes, without building the data.

extension EngineRecord {
    /// A record that changes a location, something above it or something below it.
    package struct Touch: Sendable, Equatable {
        /// Nil for a record of a version that did not keep it.
        package var authorship: Authorship?
        /// The first of the locations; with `.priority` at its end only the priority.
        package var first: Path
        /// How many locations.
        package var count: Int
    }

    /// Whose record it is, and which of its locations are at, above or below `path`.
    /// - Returns: Nil where there are none.
    /// - Throws: For a payload that cannot be read.
    /// - Complexity: O(changes); their data is not read.
    package static func touch(
        of path: Path, by kind: Kind, _ payload: RawSpan
    ) throws(UnreadableRecord) -> Touch? {
        guard kind == .delta || kind == .authoredDelta else { return nil }
        return try read(payload) { cursor throws(UnreadableRecord) in
            let authorship = kind == .authoredDelta ? try cursor.readAuthorship() : nil
            var touch: Touch?
            try cursor.forEachChangedLocation { (_, changed, _) throws(UnreadableRecord) in
                guard path.isTouched(by: changed) else { return }
                if touch == nil { touch = Touch(authorship: authorship, first: changed, count: 0) }
                touch?.count += 1
            }
            return touch
        }
    }
}

extension Path {
    /// Whether a change at that path may change the value here. The priority of a node above is not part of
    /// it.
    fileprivate func isTouched(by changed: Path) -> Bool {
        if changed.namesPriority { return contains(changed.parent) }
        return contains(changed) || changed.contains(self)
    }
}

extension ByteCursor {
    /// Visits the changes of a delta, after its writer.
    /// - Parameter body: Gets the path, and where its JSON lies.
    mutating func forEachChangedLocation(
        _ body: (borrowing ByteCursor, Path, Range<Int>) throws(UnreadableRecord) -> Void
    ) throws(UnreadableRecord) {
        let base = try readPath()
        for _ in 0..<(try readCount()) {
            let path = try readPath(below: base)
            let json = try readJSONRange()
            try body(self, path, json)
        }
    }
}
