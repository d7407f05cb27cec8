import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoTree

// `/.settings/profile.json`: an event for every operation on a database, told to who watches (rest §10).
// While nobody does, an operation costs one look at an empty dictionary.

/// One operation, as the official command-line client reads it.
struct ProfileRecord {
    /// `realtime-write`, `rest-read`, …
    var name: StaticString
    var path: Path?
    /// Bytes of what was read, written or told; about, and no more than ``byteLimit`` of a read.
    var byteCount: Int?
    /// Nil for what takes no time worth telling.
    var duration: Duration?
    /// Nil for what needs no permission.
    var isAllowed: Bool?
    /// A query that was answered without its index.
    var unindexed: Query?

    /// Reads are weighed only so far: the weighing is done on the database thread.
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
        if let unindexed {
            json.append(member: "unIndexed", .boolean(true))
            json.append(",\"querySet\":[")
            json.append(index: unindexed.index)
            json.append("]")
        }
        json.append(member: "timestamp", .integer(time))
        json.append("}")
        return json
    }
}

extension DatabaseHost {
    /// Tells the session every operation on the database from now on.
    func profile(_ database: Database, to session: SessionID) {
        sessions.add(HostedSession(database: database, publicID: nil), as: session)
        profilers[database.id, default: []].append(session)
        encoder.answer(.stream, to: session)
    }

    /// Tells it no more.
    func endProfile(of database: Database, to session: SessionID) {
        guard !profilers.isEmpty else { return }
        profilers[database.id]?.removeAll { $0 == session }
        if profilers[database.id]?.isEmpty == true { profilers[database.id] = nil }
    }

    /// The time at which an operation begins, where somebody wants to know how long it takes.
    var profiledTime: MonotonicTime? { isProfiled ? .now : nil }

    /// Tells who watches the database about an operation.
    func tell(_ record: @autoclosure () -> ProfileRecord, on database: Database, began: MonotonicTime? = nil)
    {
        guard isProfiled, let watchers = profilers[database.id] else { return }
        var record = record()
        let now = MonotonicTime.now
        if let began { record.duration = now - began }
        let json = record.json(at: clock.now(), pending: (began ?? now) - burstBegan)
        for watcher in watchers { encoder.tell(watcher, [.log(json)]) }
    }

    /// Tells about an operation of a realtime session.
    func tell(
        _ operation: Operation, _ reply: CommandResult?, byteCount: Int, on database: Database,
        began: MonotonicTime
    ) {
        var record: ProfileRecord
        switch operation {
        case .listen(let listen):
            let node = database.engine.root[listen.path]
            record = ProfileRecord(
                name: "listener-listen", path: listen.path,
                byteCount: node.weight(upTo: ProfileRecord.byteLimit))
            if let query = listen.query, query.needsIndex,
                !database.engine.access.hasIndex(query.index, at: listen.path)
            {
                record.unindexed = query
            }
        case .unlisten(let path, _, _): record = ProfileRecord(name: "listener-unlisten", path: path)
        case .get(let path, _): record = ProfileRecord(name: "realtime-read", path: path)
        case .put(let write):
            record = ProfileRecord(name: "realtime-write", path: write.target.path, byteCount: byteCount)
        case .transaction(let write, _, _):
            record = ProfileRecord(
                name: "realtime-transaction", path: write.target.path, byteCount: byteCount)
        case .merge(let base, _):
            record = ProfileRecord(name: "realtime-update", path: base, byteCount: byteCount)
        case .onDisconnect(let writes, _):
            record = ProfileRecord(
                name: "on-disconnect-put", path: writes.first?.target.path, byteCount: byteCount)
        case .cancelOnDisconnect(let path): record = ProfileRecord(name: "on-disconnect-cancel", path: path)
        case .revokeOnDisconnect, .endSession: return
        }
        if case .data(let node)? = reply { record.byteCount = node.weight(upTo: ProfileRecord.byteLimit) }
        if case .permissionDenied? = reply { record.isAllowed = false } else { record.isAllowed = true }
        tell(record, on: database, began: began)
    }

    /// Tells about a REST request.
    func tell(
        _ request: RESTRequest, _ outcome: RESTOutcome?, _ error: RESTError?, byteCount: Int,
        on database: Database,
        began: MonotonicTime?
    ) {
        guard let began, case .data(let target) = request.location else { return }
        var record = ProfileRecord(name: "rest-write", path: target.path, byteCount: byteCount)
        if request.method == .patch { record.name = "rest-update" }
        if request.method.isRead {
            record.name = request.wantsStream ? "listener-listen" : "rest-read"
            let node = outcome?.node ?? (error == nil ? database.engine.root[target.path] : .empty)
            record.byteCount = error == nil ? node.weight(upTo: ProfileRecord.byteLimit) : 0
        }
        record.isAllowed = error != .permissionDenied
        tell(record, on: database, began: began)
    }

    /// Tells about pushes, each once for all who got it.
    func tell(_ pushes: [Push], on database: Database) {
        guard isProfiled else { return }
        for push in pushes {
            let count = push.recipients.reduce(push.taggedRecipients.count) { $0 + $1.count }
            tell(
                ProfileRecord(
                    name: "listener-broadcast", path: push.body.path,
                    byteCount: count * push.body.weight(upTo: ProfileRecord.byteLimit)),
                on: database)
        }
    }
}

extension Push.Body {
    fileprivate var path: Path {
        switch self {
        case .overwrite(let path, _), .merge(let path, _), .rangeMerge(let path, _): path
        case .initial(let state): state.path
        }
    }

    fileprivate func weight(upTo limit: Int) -> Int {
        switch self {
        case .overwrite(_, let node): node.weight(upTo: limit)
        case .merge(_, let entries):
            entries.prefix(1000).reduce(0) { $0 + $1.node.weight(upTo: limit / 1000) }
        case .rangeMerge, .initial: 0
        }
    }
}

extension Query {
    /// `$key` and `$priority` need none (rest §5.1).
    fileprivate var needsIndex: Bool {
        switch index {
        case .key, .priority: false
        case .value, .child: true
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
    fileprivate mutating func append(index: PandoTree.Index) {
        switch index {
        case .child(let path):
            append("{\"index\":{\"path\":[")
            for (place, key) in path.keys.enumerated() {
                if place > 0 { append(",") }
                append(jsonName: key)
            }
            append("]}}")
        case .value: append("{\"index\":{\"type\":\"value\"},\"orderBy\":\"$value\"}")
        case .key: append("{\"index\":{\"type\":\"key\"},\"orderBy\":\"$key\"}")
        case .priority: append("{\"index\":{\"type\":\"priority\"},\"orderBy\":\"$priority\"}")
        }
    }
}
