import PandoEngine

/// The sessions of one loop, by slot. Confined to the loop.
final class SessionTable {
    typealias Slots = ContiguousArray<LoopSession?>

    private let loopIndex: UInt8
    /// Free slots are nil.
    private(set) var slots: Slots = []
    private var freeSlots: [UInt32] = []
    private var generation: UInt32 = 0

    init(loopIndex: UInt8) {
        self.loopIndex = loopIndex
    }

    var isEmpty: Bool { freeSlots.count == slots.count }

    // MARK: Finding

    /// nil where the session is over, or another loop's.
    subscript(id: SessionID) -> LoopSession? { session(id, among: slots) }

    /// The same, for many: the caller reads ``slots`` once.
    func session(_ id: SessionID, among slots: Slots) -> LoopSession? {
        guard id.loop == loopIndex, Int(id.slot) < slots.count, let session = slots[Int(id.slot)],
            session.id.rawValue == id.rawValue
        else { return nil }
        return session
    }

    func http(_ id: SessionID) -> HTTPSession? { self[id] as? HTTPSession }

    func webSocket(_ id: SessionID) -> WebSocketSession? { self[id] as? WebSocketSession }

    /// The session by long polling that carries or has carried this transport id; nil where it is over or was
    /// never.
    func polling(_ id: SessionID) -> PollingSession? {
        switch self[id] {
        case let polling as PollingSession: polling
        case let webSocket as WebSocketSession: webSocket.former
        default: nil
        }
    }

    // MARK: Changing

    /// Has sessions begin behind a generation that an earlier process has used, so that none gets the id of a
    /// session whose onDisconnect writes still wait. Before the first one.
    func skipGenerations(upTo used: UInt32) { generation = used }

    /// Makes a session with an id of its own, and adds it.
    func add<Session: LoopSession>(_ make: (SessionID) -> Session) -> Session {
        let slot: UInt32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = UInt32(slots.count)
            slots.append(nil)
        }
        generation &+= 1
        let session = make(SessionID(loop: loopIndex, slot: slot, generation: generation))
        slots[Int(slot)] = session
        return session
    }

    /// Removes a session; its slot is free.
    func remove(_ session: LoopSession) {
        let slot = session.id.slot
        assert(slots[Int(slot)] === session, "a session left the table twice")
        slots[Int(slot)] = nil
        freeSlots.append(slot)
    }

    /// Puts a WebSocket in the place of a session by long polling, whose id it will have; its own slot is
    /// free.
    func replace(_ polling: PollingSession, by webSocket: WebSocketSession) {
        remove(webSocket)
        slots[Int(polling.id.slot)] = webSocket
    }
}
