import PandoTraffic

/// Where a hostile run finds the server, and where its data is.
struct HostileSite: Sendable {
    let target: LoadTarget
    let namespace: String
    let token: String?
    /// Without the leading slash: `pando-load/RUN-ID`.
    let root: String

    /// Path and query of the realtime endpoint.
    var realtimeTarget: String { "/.ws?v=5&ns=\(namespace)" }

    /// Path and query of a location in the REST interface.
    func restTarget(_ path: String) -> String { "/\(path).json?ns=\(namespace)" }
}
