import PandoReactor

/// The protocol that a target speaks.
package enum WireProtocol: String, Sendable {
    case realtime, rest, redis, echo
}

/// What the realtime protocol is transported over.
package enum Transport: String, Sendable, CaseIterable {
    case webSocket = "ws"
    case longPolling = "lp"

    /// TCP connections that a client has at most: by long polling two polls, and one that ends the session.
    package var connectionLimit: Int {
        switch self {
        case .webSocket: 1
        case .longPolling: 3
        }
    }
}

/// The server that a run loads.
package struct LoadTarget: Sendable {
    /// What messages to an echo server contain.
    package enum EchoMessage: Sendable {
        /// As many bytes as the request or push of a database would have, so that rates may be compared.
        case sizedAsDatabase
        /// The stamp alone: ``Plan/size`` bytes.
        case stamp
    }

    /// As reports show it.
    package var name: String
    package let wireProtocol: WireProtocol
    package var transport = Transport.webSocket
    package let address: SocketAddress
    /// For the field `Host`.
    package let host: String
    package var echoMessage = EchoMessage.sizedAsDatabase
    /// The path of an echo server's WebSockets; nil for `/`, and for `/broadcast` where values are delivered
    /// to listeners.
    package var echoPath: String?
    /// For TLS; nil for none.
    package var security: LoadSecurity?
    /// WebSockets offer permessage-deflate (RFC 7692).
    package var compresses = false

    package init(name: String, wireProtocol: WireProtocol, address: SocketAddress, host: String) {
        (self.name, self.wireProtocol, self.address, self.host) = (name, wireProtocol, address, host)
    }
}

/// What a run does. ``Plan/isSender(_:)`` says what its connections are for.
package enum Work: Sendable {
    /// One writer for each topic; listeners are spread over the topics.
    case fanOut(topics: Int)
    /// Each connection sets a path of its own.
    case writes
    /// Each connection sends to its room, and receives all messages of the room.
    case chat(rooms: Int)
    /// Connections count the same numbers up: this share of them (percent) by transactions, the others by
    /// increments.
    case counter(counters: Int, transactionShare: Int)
    /// Writers change scores, or query the highest; listeners watch the `limit` highest.
    case query(items: Int, limit: Int, writers: Int, readShare: Int)
    /// Members disconnect and come back; watchers listen to their presence.
    case presence(watchers: Int)
    /// Listeners lose their connections, all at once unless there is a rate; one writer goes on meanwhile.
    case reconnectStorm(everyNanoseconds: Int)
    /// Listeners come back after the server was started again.
    case restart
    /// Connections that send nothing, or only listen.
    case idle(listens: Bool)
    /// Each connection PUTs a path of its own; this share of its operations (percent) GETs it.
    case rest(readShare: Int)

    /// The command's name.
    package var name: String {
        switch self {
        case .fanOut: "fan-out"
        case .writes: "writes"
        case .chat: "chat"
        case .counter: "counter"
        case .query: "query"
        case .presence: "presence"
        case .reconnectStorm: "reconnect-storm"
        case .restart: "restart"
        case .idle: "idle"
        case .rest: "rest"
        }
    }

    /// The names of what is timed, by the numbers under which workers record it.
    fileprivate var series: [String] {
        switch self {
        case .fanOut, .chat: ["acknowledged", "delivered"]
        case .writes: ["acknowledged"]
        case .counter: ["increment", "transaction"]
        case .query: ["acknowledged", "delivered", "query"]
        case .presence: ["back online", "seen online", "seen offline"]
        case .reconnectStorm: ["listening again", "connected again"]
        case .restart: ["without service"]
        case .idle: ["still answers"]
        case .rest: ["put", "get"]
        }
    }
}

/// The parameters of one run. Moments and times are nanoseconds.
package struct Plan: Sendable {
    package var work: Work
    package var target: LoadTarget
    /// The path under which the run's data is, without the leading slash. It is removed at the end.
    package var root: String
    package var namespace = "default"
    /// Connections of the scenario's main kind; ``connectionCount`` is all of them.
    package var connections = 1
    package var threads = 1
    /// When operations are due; nil for a closed loop, where an operation begins when another has ended.
    package var pattern: Arrivals.Pattern?
    /// Operations that one connection has under way at most.
    package var inFlight = 1
    /// Bytes of each value.
    package var size = 100
    package var warmUp = 0
    package var duration = 10_000_000_000
    /// In a closed loop, how many operations there are in all; nil for as many as fit ``duration``.
    package var operationLimit: Int?
    /// When nothing has moved for so long, what is missing counts as lost.
    package var patience = 10_000_000_000
    package var token: String?
    /// The process whose processor time and memory are measured.
    package var serverProcess: Int32?
    package var seed: UInt64 = 1
    /// Times also, of a value, until the last of its listeners has it: the last of ``series``.
    package var timesWholeFanOut = false

    package init(_ work: Work, at target: LoadTarget, root: String) {
        (self.work, self.target, self.root) = (work, target, root)
    }

    /// The names of what is timed, by the numbers under which workers record it.
    package var series: [String] { work.series + (timesWholeFanOut ? ["delivered to all"] : []) }

    /// Connections that are not of the main kind; they have the numbers 0 ..< this.
    package var extraCount: Int {
        switch work {
        case .fanOut(let topics): topics
        case .query(_, _, let writers, _): writers
        case .presence(let watchers): watchers
        case .reconnectStorm: 1
        case .writes, .chat, .counter, .restart, .idle, .rest: 0
        }
    }

    /// All connections but the one that prepares and removes the data.
    package var connectionCount: Int { connections + extraCount }

    /// Whether operations are due on this connection.
    func isSender(_ index: Int) -> Bool {
        switch work {
        case .fanOut, .query: index < extraCount
        case .presence, .reconnectStorm: index >= extraCount
        case .idle, .restart: false
        case .writes, .chat, .counter, .rest: true
        }
    }

    /// The thread that has this connection.
    func worker(of index: Int) -> Int { index % threads }

    /// Descriptors this process needs: sockets, and some for loops, timers and files.
    package var descriptorCount: Int {
        (connectionCount + 1) * target.transport.connectionLimit + threads * 8 + 32
    }
}
