import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoRules
import PandoStorage
import PandoTime
import PandoTree

/// The event streams of `/.settings/profile.json`, which get a record of every operation on a database (rest
/// §10). While there is none, an operation costs one test of a flag.
struct Profiler {
    /// The watching sessions by the number of the database. Invariant: no entry is empty.
    private var watchers: [UInt32: [SessionID]] = [:] { didSet { isActive = !watchers.isEmpty } }
    /// Whether some database is watched. Stored, since every command asks.
    private(set) var isActive = false
    /// When the messages being processed arrived; only kept while a database is watched.
    private var burstBegan = MonotonicTime(nanoseconds: 0)

    mutating func addWatcher(_ session: SessionID, of database: UInt32) {
        watchers[database, default: []].append(session)
    }

    /// Does nothing where the session does not watch the database.
    mutating func removeWatcher(_ session: SessionID, of database: UInt32) {
        guard isActive, watchers[database] != nil else { return }
        watchers[database]?.removeAll { $0 == session }
        if watchers[database]?.isEmpty == true { watchers[database] = nil }
    }

    /// Messages have arrived.
    mutating func burstArrived() { if isActive { burstBegan = .now } }

    /// The time at which an operation begins; nil while no database is watched.
    var startTime: MonotonicTime? { isActive ? .now : nil }

    /// Sends a record to the sessions that watch the database.
    /// - Parameter began: When the operation began; nil for one that takes no time of its own.
    func send(
        _ record: ProfileRecord, of database: UInt32, at clock: WallClock, began: MonotonicTime?,
        through encoder: inout OutputEncoder
    ) {
        guard let watchers = watchers[database] else { return }
        var record = record
        let now = MonotonicTime.now
        if let began { record.duration = now - began }
        let json = record.json(at: clock.now(), pending: (began ?? now) - burstBegan)
        for watcher in watchers { encoder.send([.log(json)], to: watcher) }
    }
}

/// One operation on a database, as the official command-line client reads it.
struct ProfileRecord {
    /// `realtime-write`, `rest-read`, …
    var name: StaticString
    var path: Path?
    /// Bytes that were read, written or pushed; about, and no more than ``byteLimit`` for a read.
    var byteCount: Int?
    /// Nil for an operation whose duration is not measured.
    var duration: Duration?
    /// Nil for an operation that needs no permission.
    var isAllowed: Bool?
    /// Who asked for it; nil for what the server does by itself.
    var writer: Writer?
    /// The query, where it was executed without its index.
    var unindexed: Query?

    /// Bytes up to which data is weighed, since that is done on the database thread.
    static let byteLimit = 1 << 20

    /// - Parameters:
    ///   - time: In milliseconds since 1970.
    ///   - pending: How long the operation waited for its turn.
    func json(at time: Int64, pending: Duration) -> [UInt8] {
        var json: [UInt8] = []
        json.append("{\"name\":\"")
        json.append(name)
        json.append("\"")
        if let path {
            json.append(",\"path\":[")
            for (index, key) in path.keys.enumerated() {
                if index > 0 { json.append(",") }
                json.append(jsonName: key)
            }
            json.append("]")
        }
        if let byteCount { json.append(member: "bytes", .integer(Int64(byteCount))) }
        if let duration { json.append(member: "millis", .number(duration.milliseconds)) }
        json.append(member: "pendingTime", .number(pending.milliseconds))
        if let isAllowed { json.append(member: "allowed", .boolean(isAllowed)) }
        if let writer {
            json.append(",\"by\":\"")
            json.append(writer.kind)
            json.append("\"")
            if case .user(let uid) = writer { json.append(member: "uid", .string(uid)) }
        }
        if let unindexed {
            json.append(member: "unIndexed", .boolean(true))
            json.append(",\"querySet\":[")
            json.append(index: unindexed.order)
            json.append("]")
        }
        json.append(member: "timestamp", .integer(time))
        json.append("}")
        return json
    }
}

extension ProfileRecord {
    /// The record of an operation of a realtime session; nil for one that clients do not ask for.
    /// - Parameters:
    ///   - byteCount: Bytes of the request.
    ///   - credential: Whose request it is.
    init?(
        _ operation: Operation, _ result: CommandResult?, byteCount: Int, by credential: Credential,
        of database: StoredDatabase
    ) {
        switch operation {
        case .listen(let listen):
            let node = database.engine.root[listen.path]
            self.init(
                name: "listener-listen", path: listen.path, byteCount: node.weight(upTo: Self.byteLimit))
            if let query = listen.query, query.needsIndex,
                !database.engine.access.hasIndex(query.order, at: listen.path)
            {
                unindexed = query
            }
        case .unlisten(let path, _, _): self.init(name: "listener-unlisten", path: path)
        case .get(let path, _): self.init(name: "realtime-read", path: path)
        case .put(let write):
            self.init(name: "realtime-write", path: write.target.path, byteCount: byteCount)
        case .transaction(let write, _, _):
            self.init(name: "realtime-transaction", path: write.target.path, byteCount: byteCount)
        case .merge(let base, _): self.init(name: "realtime-update", path: base, byteCount: byteCount)
        case .onDisconnect(let writes, _):
            self.init(name: "on-disconnect-put", path: writes.first?.target.path, byteCount: byteCount)
        case .cancelOnDisconnect(let path): self.init(name: "on-disconnect-cancel", path: path)
        case .revokeOnDisconnect, .endSession: return nil
        }
        if case .data(let node)? = result { self.byteCount = node.weight(upTo: Self.byteLimit) }
        if case .permissionDenied? = result { isAllowed = false } else { isAllowed = true }
        writer = Writer(credential)
    }

    /// The record of a REST request to a location of the data; nil for another one.
    /// - Parameters:
    ///   - result: Nil where events follow, and where the request was refused.
    ///   - error: Why it was refused.
    ///   - byteCount: Bytes of the request's body.
    ///   - credential: Whose request it is.
    init?(
        _ request: RESTRequest, _ result: RESTCallResult?, _ error: RESTError?, byteCount: Int,
        by credential: Credential, of database: StoredDatabase
    ) {
        guard case .data(let target) = request.location else { return nil }
        self.init(name: "rest-write", path: target.path, byteCount: byteCount)
        if request.method == .patch { name = "rest-update" }
        if request.method.isRead {
            name = request.wantsStream ? "listener-listen" : "rest-read"
            let node = result?.node ?? (error == nil ? database.engine.root[target.path] : .empty)
            self.byteCount = error == nil ? node.weight(upTo: Self.byteLimit) : 0
        }
        isAllowed = error != .permissionDenied
        writer = Writer(credential)
    }

    /// The record of a push, once for all of its recipients.
    init(_ push: Push) {
        let count = push.recipients.reduce(push.taggedRecipients.count) { $0 + $1.count }
        self.init(
            name: "listener-broadcast", path: push.body.path,
            byteCount: count * push.body.weight(upTo: Self.byteLimit))
    }
}

extension Push.Body {
    fileprivate var path: Path {
        switch self {
        case .overwrite(let path, _), .merge(let path, _), .rangeMerge(let path, _): path
        case .initial(let state): state.path
        case .listens(let changed): changed.alterations.all.first?.path ?? .root
        }
    }

    fileprivate func weight(upTo limit: Int) -> Int {
        switch self {
        case .overwrite(_, let node): node.weight(upTo: limit)
        case .merge(_, let entries):
            entries.prefix(1000).reduce(0) { $0 + $1.node.weight(upTo: limit / 1000) }
        case .rangeMerge, .initial, .listens: 0
        }
    }
}

extension Query {
    /// `$key` and `$priority` need none (rest §5.1).
    var needsIndex: Bool {
        switch order {
        case .key, .priority: false
        case .value, .child, .compound: true
        }
    }
}

extension Duration {
    /// To a thousandth.
    fileprivate var milliseconds: Double { (self / .microseconds(1)).rounded() / 1000 }
}

extension [UInt8] {
    fileprivate mutating func append(member name: StaticString, _ value: Node) {
        append(",\"")
        append(name)
        append("\":")
        append(json: value)
    }

    /// Appends a query's index as the official client reads it: the keys of a child's path, or what else it
    /// is.
    fileprivate mutating func append(index: ChildOrder) {
        switch index {
        case .child(let path):
            append("{\"index\":{\"path\":[")
            for (place, key) in path.keys.enumerated() {
                if place > 0 { append(",") }
                append(jsonName: key)
            }
            append("]}}")
        // As rules declare it: the client knows no order of several fields.
        case .compound:
            append("{\"index\":{\"path\":[")
            append(json: Node.string(Text(index.declaredName ?? "")))
            append("]}}")
        case .value: append("{\"index\":{\"type\":\"value\"},\"orderBy\":\"$value\"}")
        case .key: append("{\"index\":{\"type\":\"key\"},\"orderBy\":\"$key\"}")
        case .priority: append("{\"index\":{\"type\":\"priority\"},\"orderBy\":\"$priority\"}")
        }
    }
}
