import PandoBytes
import PandoTree

/// Members are present while they are connected: each sets a value, and removes it by onDisconnect. An
/// operation is a member that disconnects and comes back; watchers must see both, once.
///
/// Connections 0 ..< watchers watch.
final class PresenceScenario: Scenario {
    private struct Seen {
        var audit = StreamAudit()
        var isThere = false
    }

    private let watchers: Int
    private var seen: [Int: [Int: Seen]] = [:]
    private var acknowledged: [Int: Int] = [:]
    private var returning: [Int: Int] = [:]

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, watchers: Int) {
        self.watchers = watchers
        super.init(context, worker)
    }

    override var wantsWholePushes: Bool { true }

    private var room: String { "\(plan.root)/present" }

    private func path(_ client: Client) -> String { "\(room)/m\(client.index)" }

    override func prepare(_ client: Client) {
        if client.isSender { return appear(client, intended: context.now) }
        seen[client.index] = [:]
        client.listen(room, Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    /// Registers the removal, then sets the value: in this order no value is left behind (realtime §15.7).
    private func appear(_ client: Client, intended: Int) {
        guard let realtime = client as? RealtimeClient else {
            preconditionFailure("presence needs the realtime protocol")
        }
        realtime.send("o", path(client), Pending(purpose: .setUp, detail: 0, intended: intended)) {
            $0.append(#","d":null"#)
        }
        client.sent += 1
        let detail = Stream.sequence(client.index, client.sent)
        // The moment in the stamp is when the value was sent: what watchers see counts from there.
        client.set(
            path(client), place: 0, Pending(purpose: .otherOperation, detail: detail, intended: context.now))
    }

    override func send(_ client: Client, intended: Int) {
        returning[client.index] = intended
        context.leaveTimes.leaves(client.index, at: context.now)
        client.close()
    }

    override func left(_ client: Client) { client.connect() }

    override func reconnected(_ client: Client) { appear(client, intended: context.now) }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        guard client.isSender else { return worker.ready(client) }
        guard request.purpose == .otherOperation else { return }
        acknowledged[client.index, default: 0] += 1
        guard let intended = returning.removeValue(forKey: client.index) else { return worker.ready(client) }
        worker.completed(client, series: 0, intended: intended)
    }

    override func pushed(_ client: Client, action: String, body: Range<Int>, _ text: RawSpan) {
        // Before the listen's reply comes all that was there already, in one value.
        guard action == "d", let change = try? Envelope.change(text, body) else {
            return context.findings.add(
                \.wrong, "connection \(client.index): a push that is no change of one member")
        }
        if change.path == room {
            for entry in change.value.children.entries { see(client, entry.key.text.description, entry.node) }
            return
        }
        see(client, String(change.path.dropFirst(room.count + 1)), change.value)
    }

    private func see(_ client: Client, _ key: String, _ value: Node) {
        guard let member = Int(key.dropFirst()) else {
            return context.findings.add(\.wrong, "connection \(client.index): an unknown member: \(key)")
        }
        var state = seen[client.index]?[member] ?? Seen()
        defer { seen[client.index]?[member] = state }
        guard case .string(let text) = value else {
            guard state.isThere else {
                return context.findings.add(
                    \.duplicates, "connection \(client.index): member \(member) left twice")
            }
            state.isThere = false
            let now = context.now
            context.statistics.delivered(at: now)
            if let moment = context.leaveTimes.moment(of: member) {
                context.statistics.record(2, since: moment, at: now)
            }
            return context.noteProgress()
        }
        guard let stamp = stamp(client, Array(text.description.utf8).rawSpan) else { return }
        if state.isThere, stamp.number > state.audit.next - 1 {
            context.findings.add(
                \.missing, "connection \(client.index): member \(member) was not seen to leave")
        }
        state.isThere = true
        delivered(client, &state.audit, stamp, series: 1)
    }

    override var published: [Int: Int] { acknowledged }

    override func finish(_ published: [Int: Int]) {
        for (watcher, members) in seen {
            guard let client = worker.clients.first(where: { $0.index == watcher }) else { continue }
            for (member, count) in published {
                var state = members[member] ?? Seen()
                finish(client, &state.audit, stream: member, last: count)
                if !state.isThere {
                    context.findings.add(
                        \.wrong, "connection \(watcher): member \(member) is there, and not seen")
                }
            }
        }
    }
}
