import PandoBytes
import PandoTree

/// Hashes as clients compute them (realtime §9). Their own tests are in `Tests/Tree`.
enum ValueHash {
    /// That of a transaction; `""` for no data.
    static func simple(of value: Value) -> String { value == .nothing ? "" : node(value)?.hash ?? "" }

    /// The ETag of the value.
    static func tag(of value: Value) -> String { value == .nothing ? "null_etag" : simple(of: value) }

    private static func node(_ value: Value) -> Node? { try? Node(json: Array(value.json.utf8).rawSpan) }
}
