import PandoRandom

/// The connections between clients and the server. It cuts, merges, delays and slows what both sides send,
/// and resets connections, as its generator says.
struct SimulatedNetwork {
    /// How the connections of a run behave.
    struct Plan {
        /// Of a hundred connections, those whose bytes are cut into pieces, and those that are slow, too.
        var piecesPercent = 0
        var slowPercent = 0
        /// Of a hundred connections, those that speak TLS.
        var securePercent = 0
        /// Of ten thousand moves, those that reset a connection.
        var resetsInTenThousand = 0
    }

    let plan: Plan
    private(set) var links: [SimulatedLink] = []
    private(set) var resetCount = 0
    private(set) var cutCount = 0

    init(_ plan: Plan) { self.plan = plan }

    /// A client connects.
    mutating func connect(_ random: inout SeededGenerator) -> SimulatedLink {
        let choice = Int.random(in: 0..<100, using: &random)
        let rate: SimulatedLink.Rate =
            if choice < plan.slowPercent {
                .slow(windowByteCount: random.pick([40, 300, 2000, 20_000]))
            } else if choice < plan.slowPercent + plan.piecesPercent { .pieces } else { .whole }
        let isSecure = plan.securePercent > 0 && random.chance(plan.securePercent)
        let link = SimulatedLink(
            number: links.count, rate: rate, secure: isSecure ? SecureChoice(&random) : nil)
        links.append(link)
        return link
    }

    /// Connections by which anything may still come.
    private var liveLinks: [SimulatedLink] { links.filter { !$0.isQuiet } }

    /// Bytes move on some connections.
    mutating func move(_ random: inout SeededGenerator) {
        for link in liveLinks {
            if plan.resetsInTenThousand > 0,
                Int.random(in: 0..<10_000, using: &random) < plan.resetsInTenThousand
            {
                link.reset()
                resetCount += 1
                continue
            }
            // The others are delayed.
            guard random.chance(75) else { continue }
            switch link.rate {
            case .whole:
                link.toServer.moveAll()
                link.toClient.moveAll()
            case .pieces, .slow:
                movePiece(of: &link.toServer, &random)
                movePiece(of: &link.toClient, &random)
            }
        }
    }

    private mutating func movePiece(of pipe: inout BytePipe, _ random: inout SeededGenerator) {
        pipe.accept(pipe.acceptableCount)
        let count = random.part(of: pipe.inFlightCount)
        if count < pipe.inFlightCount { cutCount += 1 }
        pipe.carry(count)
        pipe.carryEnd()
    }

    /// Everything arrives that may, on all connections. What a small receive window keeps back needs several
    /// calls.
    /// - Returns: Whether anything has moved.
    mutating func moveAll() -> Bool {
        var hasMoved = false
        for link in liveLinks {
            hasMoved = link.toServer.moveAll() || hasMoved
            hasMoved = link.toClient.moveAll() || hasMoved
        }
        return hasMoved
    }

    /// Windows are as large as any from now on.
    func widen() {
        for link in links { link.toClient.windowByteCount = max(link.toClient.windowByteCount, 1 << 20) }
    }

    /// The server has died. Of what its kernel has accepted, a part still arrives; then all connections are
    /// reset (``disconnect()``).
    mutating func loseServer(_ random: inout SeededGenerator) {
        for link in links where !link.isReset {
            link.toClient.dropUnsent()
            link.toClient.carry(random.part(of: link.toClient.inFlightCount))
        }
    }

    /// All connections are gone; new ones are counted from 0.
    mutating func disconnect() {
        for link in links { link.reset() }
        links = []
    }
}

extension BytePipe {
    /// - Returns: Whether anything has moved.
    @discardableResult
    mutating func moveAll() -> Bool {
        let before = (acceptedCount, arrivedCount, hasEndArrived)
        accept(acceptableCount)
        carry(inFlightCount)
        carryEnd()
        return before != (acceptedCount, arrivedCount, hasEndArrived)
    }
}
