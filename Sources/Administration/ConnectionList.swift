import PandoBytes
import PandoDatabase
import PandoEngine
import PandoLoops
import PandoReactor
import PandoTree
import Synchronization

// `/connz`: who is connected, since when, from where, what it listens to, and what is unsent to it. Each I/O
// loop looks at its sessions, a part of them in each tick, and keeps those that sort first; then the
// databases say what these listen to.

extension AdminReports {
    /// Lists connections of all loops, as JSON.
    func listConnections(_ request: ConnectionListRequest, _ body: @escaping ([UInt8]) -> Void) {
        let gathering = Gathering(ioLoops.count)
        let answer = FirstResult(on: loop, timeout: Self.databaseTimeout, otherwise: ()) { [self] in
            let (all, count) = gathering.entries
            let chosen = all.sorted { $0.key > $1.key }.prefix(request.limit)
            statistics(of: chosen.map(\.id)) { known in
                body(Self.json(Array(chosen), known, count, request))
            }
        }
        guard metrics.status.phase != .recovering else { return answer.give(()) }
        for ioLoop in ioLoops {
            ioLoop.loop.submit {
                ioLoop.list(request) { found, count in
                    if gathering.add(found, count) { answer.giveFromElsewhere(()) }
                }
            }
        }
    }

    /// Closes the connection of a session, and says whether there was one.
    func disconnect(_ id: SessionID, _ body: @escaping (Bool) -> Void) {
        let answer = FirstResult(on: loop, timeout: Self.databaseTimeout, otherwise: false, body)
        guard metrics.status.phase != .recovering, let ioLoop = ioLoops.first(where: { $0.index == id.loop })
        else { return answer.give(false) }
        ioLoop.loop.submit { answer.giveFromElsewhere(ioLoop.disconnect(id)) }
    }

    /// The response. Sessions that do not fit are counted.
    static func json(
        _ entries: [ConnectionEntry], _ known: [SessionID: DatabaseStatistics.Session], _ count: Int,
        _ request: ConnectionListRequest
    ) -> [UInt8] {
        var json: [UInt8] = []
        json.append("{\"count\":")
        json.append(decimal: Int64(count))
        json.append(",\"sort\":")
        json.append(json: Text(request.order.rawValue))
        json.append(",\"connections\":[")
        var leftOutCount = 0
        for (index, entry) in entries.enumerated() {
            let end = json.count
            if index > 0 { json.append(",") }
            json.append(entry, known[entry.id])
            guard json.count > ConnectionListRequest.responseByteLimit else { continue }
            json.removeSubrange(end...)
            leftOutCount = entries.count - index
            break
        }
        json.append("],\"left_out\":")
        json.append(decimal: Int64(leftOutCount))
        json.append("}")
        return json
    }
}

/// The lists of the loops, until the last has come.
private final class Gathering: Sendable {
    private struct State {
        var missingCount: Int
        var entries: [ConnectionEntry] = []
        var count = 0
    }

    private let state: Mutex<State>

    init(_ loopCount: Int) { state = Mutex(State(missingCount: loopCount)) }

    /// - Returns: Whether it was the last.
    func add(_ entries: [ConnectionEntry], _ count: Int) -> Bool {
        state.withLock { state in
            state.missingCount -= 1
            state.entries += entries
            state.count += count
            return state.missingCount == 0
        }
    }

    var entries: ([ConnectionEntry], count: Int) { state.withLock { ($0.entries, $0.count) } }
}

extension [UInt8] {
    fileprivate mutating func append(_ entry: ConnectionEntry, _ known: DatabaseStatistics.Session?) {
        append("{\"id\":")
        append(json: Text(entry.id.hexadecimal))
        append(",\"transport\":")
        append(json: Text("\(entry.transport)"))
        append(",\"peer\":")
        if let peer = entry.peer { append(json: Text(peer)) } else { append("null") }
        append(",\"tls\":")
        append(json: Node.boolean(entry.isSecure))
        append(",\"thread\":")
        append(decimal: Int64(entry.thread))
        append(",\"age_seconds\":")
        append(json: entry.ageSeconds)
        append(",\"idle_seconds\":")
        append(json: entry.idleSeconds)
        append(",\"received_bytes\":")
        append(decimal: Int64(entry.receivedByteCount))
        append(",\"sent_bytes\":")
        append(decimal: Int64(entry.sentByteCount))
        append(",\"queue_bytes\":")
        append(decimal: Int64(entry.queuedByteCount))
        append(",\"memory_bytes\":")
        append(decimal: Int64(entry.heldByteCount))
        if let known {
            append(",\"database\":")
            append(json: Text(known.database))
            append(",\"uid\":")
            if let uid = known.uid { append(jsonOfParts: [uid]) } else { append("null") }
            append(",\"administrator\":")
            append(json: Node.boolean(known.isAdministrator))
            append(",\"listen_count\":")
            append(decimal: Int64(known.listenCount))
            append(",\"listens\":[")
            for (index, path) in known.paths.enumerated() {
                if index > 0 { append(",") }
                if path.isRoot {
                    append(json: "/" as Text)
                } else {
                    append(jsonOfParts: path.keys.lazy.map { "/" + $0.string })
                }
            }
            append("]")
        }
        append("}")
    }

    /// Appends the parts as one text, which ends with `…` where it is longer than
    /// ``ConnectionListRequest/textByteLimit``. Makes no more text than that, and one part.
    private mutating func append(jsonOfParts parts: some Sequence<String>) {
        let limit = ConnectionListRequest.textByteLimit
        var text: [UInt8] = []
        for part in parts {
            text.append(contentsOf: part.utf8)
            if text.count > limit { break }
        }
        guard text.count > limit else { return append(json: Text(String(decoding: text, as: UTF8.self))) }
        // Before a whole character.
        let end = text[...limit].lastIndex { $0 & 0xC0 != 0x80 } ?? 0
        append(json: Text(String(decoding: text[..<end], as: UTF8.self) + "…"))
    }
}
