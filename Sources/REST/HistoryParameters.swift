import PandoBytes
import PandoHTTP
import PandoTree

/// What `/.inspect/history.json` is asked (rest §10.1).
package struct HistoryParameters: Equatable, Sendable {
    /// What is asked for.
    package enum Part: String, Sendable {
        case all, writes, rules
    }

    package var part: Part
    /// Of a node; the root where rules are asked for.
    package var path: Path
    /// Milliseconds since 1970; nil for now.
    package var time: Int64?
    /// Not more than the caller's limit.
    package var limit: Int
    /// The number of a record of the journal.
    package var before: UInt64?

    /// - Parameters:
    ///   - usualLimit: Writes where the request has no `limit`.
    ///   - highestLimit: A higher `limit` counts as this one.
    /// - Throws: ``RESTError/parameter(_:)`` for one that is missing or malformed.
    package init(_ request: RESTRequest, usualLimit: Int, highestLimit: Int) throws(RESTError) {
        let parameters = request.address.parameters
        guard let part = Part(rawValue: parameters["part"].map { $0.asciiString ?? "" } ?? Part.all.rawValue)
        else {
            throw .parameter(.partMalformed)
        }
        self.part = part
        guard let text = parameters["path"] ?? (part == .rules ? "/" : nil) else {
            throw .parameter(.pathMissing)
        }
        do throws(InvalidData) { path = try Path(wire: text) } catch {
            throw .parameter(.pathMalformed)
        }
        time = try Self.number(parameters, "at", .atMalformed)
        limit =
            try Self.number(parameters, "limit", .limitMalformed).map { Int(min($0, Int64(highestLimit))) }
            ?? usualLimit
        guard limit > 0 else { throw .parameter(.limitMalformed) }
        before = try Self.number(parameters, "before", .beforeMalformed).map { UInt64($0) }
    }

    /// Digits only, without a sign; a number beyond 63 bits is malformed.
    private static func number(
        _ parameters: QueryString, _ name: StaticString, _ problem: RESTError.Parameter
    ) throws(RESTError) -> Int64? {
        guard let text = parameters[name] else { return nil }
        guard let value = text.number(as: Int64.self) else { throw .parameter(problem) }
        return value
    }
}
