import PandoBytes

/// Rooms: each member sends messages to its room and receives all messages of the room, its own included. A
/// member overwrites its last 50 messages, so that a room does not grow with the run.
///
/// Connection n is in room n modulo the rooms, as member n / rooms.
final class ChatScenario: Scenario {
    private static let keptMessages = 50

    private let rooms: Int
    private let membersPerRoom: Int
    /// Of this worker's connection, one for each member of its room.
    private var audits: [StreamAudit]
    private var acknowledged: [Int: Int] = [:]

    init(_ context: WorkerContext, _ worker: any ScenarioDelegate, rooms: Int) {
        self.rooms = rooms
        let plan = context.plan
        membersPerRoom = (plan.connections + rooms - 1) / rooms
        audits = Array(
            repeating: StreamAudit(), count: (plan.connections / plan.threads + 1) * membersPerRoom)
        super.init(context, worker)
    }

    private func room(_ client: Client) -> String { "\(plan.root)/rooms/\(client.index % rooms)" }

    private func place(_ client: Client, member: Int) -> Int {
        client.index / plan.threads * membersPerRoom + member
    }

    override func prepare(_ client: Client) {
        client.listen(room(client), Pending(purpose: .setUp, detail: 0, intended: 0))
    }

    override func send(_ client: Client, intended: Int) {
        let place = (client.sent + 1) % Self.keptMessages
        setNext(
            client, "\(room(client))/\(client.index)-\(place)/text", place: place, stream: client.index,
            intended: intended)
    }

    override func replied(_ client: Client, _ request: Pending, _ reply: Reply, _ text: RawSpan) {
        guard request.purpose == .operation else { return worker.ready(client) }
        acknowledged[client.index, default: 0] += 1
        worker.completed(client, series: 0, intended: request.intended)
    }

    override func pushed(_ client: Client, _ text: RawSpan) {
        guard let stamp = stamp(client, text) else { return }
        guard stamp.stream < plan.connections, stamp.stream % rooms == client.index % rooms else {
            return context.findings.add(\.wrong, "connection \(client.index): a message of another room")
        }
        delivered(client, &audits[place(client, member: stamp.stream / rooms)], stamp, series: 1)
    }

    override var published: [Int: Int] { acknowledged }

    override func finish(_ published: [Int: Int]) {
        for client in worker.clients {
            for member in 0..<membersPerRoom {
                let stream = member * rooms + client.index % rooms
                guard stream < plan.connections else { continue }
                finish(
                    client, &audits[place(client, member: member)], stream: stream,
                    last: published[stream] ?? 0)
            }
        }
    }
}
