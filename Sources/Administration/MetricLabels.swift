import PandoDatabase
import PandoEngine
import PandoREST
import PandoReactor

// The values of labels. Monitoring knows them, so they do not follow the names in the code.

extension LoopMetrics.End {
    var label: String {
        switch self {
        case .requested: "orderly"
        case .reset: "reset"
        case .outboundLimit: "outbound_limit"
        case .stalled: "stalled"
        case .insecure: "tls"
        case .handshakeTimeout: "handshake_timeout"
        case .failed: "failed"
        case .loopStopped: "stop"
        }
    }
}

extension LoopMetrics.Handshake {
    var label: String {
        switch self {
        case .done: "done"
        case .failed: "failed"
        case .timedOut: "timed_out"
        case .abandoned: "abandoned"
        }
    }
}

extension ClientLimit {
    var label: String {
        switch self {
        case .connectionsPerAddress: "connections_per_address"
        case .connectionsPerUser: "connections_per_user"
        case .writesPerSecond: "writes_per_second"
        case .bytesPerSecond: "bytes_per_second"
        case .messageBytes: "message_bytes"
        case .headBytes: "head_bytes"
        case .bodyBytes: "body_bytes"
        }
    }
}

extension SessionLimit {
    var label: String {
        switch self {
        case .listens: "listens"
        case .filteredListens: "filtered_listens"
        case .aggregates: "aggregates"
        case .listenBytes: "listen_bytes"
        case .onDisconnects: "on_disconnect"
        }
    }
}

extension RequestKind {
    var protocolLabel: String {
        switch self {
        case .restRead, .restStream, .restWrite, .restOther: "rest"
        case .listen, .unlisten, .get, .put, .merge, .transaction, .onDisconnect, .other: "realtime"
        }
    }

    var kindLabel: String {
        switch self {
        case .listen: "listen"
        case .unlisten: "unlisten"
        case .get: "get"
        case .put: "put"
        case .merge: "merge"
        case .transaction: "transaction"
        case .onDisconnect: "on_disconnect"
        case .other, .restOther: "other"
        case .restRead: "read"
        case .restStream: "stream"
        case .restWrite: "write"
        }
    }
}

extension DatabaseMetrics.Failure {
    var label: String {
        switch self {
        case .permissionDenied: "permission_denied"
        case .dataStale: "data_stale"
        case .invalid: "invalid"
        case .tooBig: "too_big"
        case .diskFull: "disk_full"
        case .unauthenticated: "unauthenticated"
        case .unavailable: "unavailable"
        case .other: "other"
        case .limitExceeded: "limit_exceeded"
        }
    }
}
