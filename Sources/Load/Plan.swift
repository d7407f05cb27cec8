import PandoReactor

/// What speaks at the other end.
enum WireProtocol: String, Sendable {
    case realtime, rest, redis, echo
}

/// What the realtime protocol travels over.
enum Transport: String, Sendable, CaseIterable {
    case webSocket = "ws"
    case longPolling = "lp"

    /// TCP connections that a client has at the most: by long polling two polls, and one that says goodbye.
    var connectionLimit: Int {
        switch self {
        case .webSocket: 1
        case .longPolling: 3
        }
    }
}

/// Where the load goes.
struct Target: Sendable {
    var name: String
    let speech: WireProtocol
    var transport = Transport.webSocket
    let address: SocketAddress
    /// For the field `Host`.
    let host: String
}

/// What is done. Each case says what its connections are for in ``Plan/isSender(_:)``.
enum Work: Sendable {
    /// Writers, one a topic, and listeners spread over the topics.
    case fanOut(topics: Int)
    /// Everybody sets a place of their own.
    case writes
    /// Everybody sends, and hears all of their room.
    case chat(rooms: Int)
    /// Everybody counts; this share (percent) of connections by transactions, the others by increments.
    case counter(counters: Int, transactionShare: Int)
    /// Writers change scores, or ask for the best; listeners watch the best so many.
    case query(items: Int, limit: Int, writers: Int, readShare: Int)
    /// Members come and go; watchers see them.
    case presence(watchers: Int)
    /// Listeners lose their connections, all at once unless there is a rate; one writer goes on meanwhile.
    case reconnectStorm(everyNanoseconds: Int)
    /// Connections that do nothing, or listen.
    case idle(listens: Bool)
    /// Everybody PUTs a place of their own and, this share (percent) of times, GETs it.
    case rest(readShare: Int)

    var name: String {
        switch self {
        case .fanOut: "fan-out"
        case .writes: "writes"
        case .chat: "chat"
        case .counter: "counter"
        case .query: "query"
        case .presence: "presence"
        case .reconnectStorm: "reconnect-storm"
        case .idle: "idle"
        case .rest: "rest"
        }
    }

    /// What is timed.
    var series: [String] {
        switch self {
        case .fanOut, .chat: ["acknowledged", "delivered"]
        case .writes: ["acknowledged"]
        case .counter: ["increment", "transaction"]
        case .query: ["acknowledged", "delivered", "query"]
        case .presence: ["back online", "seen online", "seen offline"]
        case .reconnectStorm: ["listening again", "connected again"]
        case .idle: ["still answers"]
        case .rest: ["put", "get"]
        }
    }
}

/// Everything one run is asked for. Moments and times are nanoseconds.
struct Plan: Sendable {
    var work: Work
    var target: Target
    var namespace: String
    /// Of the scenario's main kind; ``connectionCount`` is all of them.
    var connections: Int
    var threads: Int
    var pattern: Arrivals.Pattern?
    var inFlight: Int
    var size: Int
    var warmUp: Int
    var duration: Int
    /// When nothing moves for so long, what is missing will not come.
    var patience: Int
    var token: String?
    var serverProcess: Int32?
    /// Names the place of this run's data: `/pando-load/<run-id>`.
    var runID: String
    var seed: UInt64

    var root: String { "pando-load/\(runID)" }

    /// Connections that are not of the main kind; they have the numbers 0 ..< this.
    var extraCount: Int {
        switch work {
        case .fanOut(let topics): topics
        case .query(_, _, let writers, _): writers
        case .presence(let watchers): watchers
        case .reconnectStorm: 1
        case .writes, .chat, .counter, .idle, .rest: 0
        }
    }

    /// All connections, the one that cleans up not counted.
    var connectionCount: Int { connections + extraCount }

    /// Whether operations fall due on this connection.
    func isSender(_ index: Int) -> Bool {
        switch work {
        case .fanOut, .query: index < extraCount
        case .presence, .reconnectStorm: index >= extraCount
        case .idle: false
        case .writes, .chat, .counter, .rest: true
        }
    }

    func worker(of index: Int) -> Int { index % threads }

    /// Descriptors this process needs: sockets, and some for loops, timers, files.
    var descriptorCount: Int { (connectionCount + 1) * target.transport.connectionLimit + threads * 8 + 32 }
}
