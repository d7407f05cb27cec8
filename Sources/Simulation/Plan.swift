import PandoRandom
import PandoStorage

/// What a seed does: its options, its disk, its network.
struct Plan: CustomStringConvertible {
    var durability: Durability
    /// Starts of the server.
    var lifeCount: Int
    /// Steps of one life, at most.
    var stepLimit: Int
    var segmentByteLimit: Int
    var reservationByteCount: Int
    var lowSpaceByteCount: Int
    var reserveByteCount: Int
    var checkpointByteLimit: Int
    /// The disk is nearly full now and then.
    var hasFullDisks: Bool
    /// Requests wait while the loop has more outputs to deliver than these; few where that is to happen.
    var outputByteLimit: Int
    /// Bytes of requests that may wait before clients are paused.
    var requestByteLimit: Int
    /// A location with at most so many children gets no index: queries visit all of them.
    var unindexedChildCount: Int
    var network: SimulatedNetwork.Plan
    /// Disk operations in 10 000 that fail.
    var failuresInTenThousand: Int
    /// Bits change between two lives.
    var hasRot: Bool
    /// Nanoseconds that most requests take on the scripted clock; 0 where they take no time, and all that has
    /// come is done in the order of arrival. Otherwise sessions ask for hundreds of things at once, and take
    /// turns.
    var workStep: UInt64

    /// No write ever waits for space.
    var hasAmpleSpace: Bool { lowSpaceByteCount > 2 * reserveByteCount }
    /// Outputs make requests wait.
    var hasSlowLoops: Bool { outputByteLimit < 1 << 20 }

    var hasFloods: Bool { workStep > 0 }
    /// What few requests take.
    var heavyWorkStep: UInt64 { 4 * workStep }

    /// Of a hundred seeds, those in which sessions flood: each takes as long as many of the others.
    private static let floodPercent = 4

    init(_ random: inout SeededGenerator, floods: Bool? = nil) {
        durability = random.chance(60) ? .always : random.chance(50) ? .interval : .none
        lifeCount = .random(in: 2...6, using: &random)
        stepLimit = random.pick([60, 200, 500])
        segmentByteLimit = random.pick([1 << 10, 4 << 10, 16 << 10, 1 << 20])
        reservationByteCount = random.pick([512, 4 << 10, 64 << 10])
        // Small enough for the space of a prepared segment to be all there is, or as in a server.
        (lowSpaceByteCount, reserveByteCount) = random.pick([
            (300, 2 << 10), (2 << 10, 8 << 10), (8 << 20, 1 << 20), (8 << 20, 1 << 20),
        ])
        checkpointByteLimit = random.pick([1 << 10, 4 << 10, 16 << 10, 1 << 20])
        hasFullDisks = random.chance(25)
        outputByteLimit = random.chance(15) ? 600 : 1 << 30
        failuresInTenThousand = random.chance(30) ? random.pick([20, 100, 500]) : 0
        hasRot = random.chance(25)
        requestByteLimit = random.pick([200, 3000, 64 << 20])
        unindexedChildCount = random.pick([0, 2, 256])
        network =
            random.chance(20)
            ? SimulatedNetwork.Plan()
            : SimulatedNetwork.Plan(
                piecesPercent: random.pick([0, 40, 80]), slowPercent: random.pick([0, 0, 20]),
                resetsInTenThousand: random.pick([0, 20, 100]))
        network.securePercent = random.pick([0, 0, 40, 100])
        let step = random.pick([50_000, 100_000, 300_000]) as UInt64
        let isChosen = random.chance(Self.floodPercent)
        workStep = floods ?? isChosen ? step : 0
        guard hasFloods else { return }
        // Which of many requests was refused would have to be found out.
        (hasFullDisks, failuresInTenThousand) = (false, 0)
        outputByteLimit = 1 << 30
        // Of few sessions the ends can be told apart.
        network.resetsInTenThousand = 0
        lifeCount = min(lifeCount, 3)
    }

    var description: String {
        "\(durability), segments of \(segmentByteLimit), checkpoints after \(checkpointByteLimit)"
            + (hasFullDisks ? ", full disks" : "") + (hasSlowLoops ? ", slow loops" : "")
            + (failuresInTenThousand > 0 ? ", \(failuresInTenThousand) failures in 10 000" : "")
            + (hasRot ? ", rot" : "") + ", indexes above \(unindexedChildCount) children"
            + ", network: \(network.piecesPercent) % in pieces, \(network.slowPercent) % slow, "
            + "\(network.securePercent) % TLS, \(network.resetsInTenThousand) resets in 10 000"
            + (hasFloods ? ", floods of requests of \(workStep / 1000) µs" : "")
    }
}
