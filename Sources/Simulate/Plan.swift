import PandoRandom
import PandoServer
import PandoStorage
import PandoSimulatedDisk

/// What kind of life a seed is.
struct Plan: CustomStringConvertible {
    var durability: Durability
    /// Starts of the server.
    var lifeCount: Int
    /// Steps of one life, at most.
    var stepLimit: Int
    var segmentByteLimit: Int
    var reservationByteCount: Int
    var lowRoomByteCount: Int
    var spareRoomByteCount: Int
    var checkpointByteLimit: Int
    /// The disk is nearly full now and then.
    var hasFullDisks: Bool
    /// Outputs wait for the clients that read them.
    var hasSlowLoops: Bool
    /// Disk operations in 10 000 that fail.
    var failuresInTenThousand: Int
    /// Bits change between two lives.
    var hasRot: Bool
    /// Nanoseconds that most requests are said to take; 0 where they take no time, and all that has come is
    /// done in the order of arrival. Else sessions ask for hundreds of things at once, and take turns.
    var workStep: UInt64

    /// Nobody ever waits for room.
    var hasAmpleRoom: Bool { lowRoomByteCount > 2 * spareRoomByteCount }

    var hasFloods: Bool { workStep > 0 }
    /// What few requests are said to take.
    var heavyWorkStep: UInt64 { 4 * workStep }

    /// Of a hundred seeds, those in which sessions flood: each takes as long as fifteen of the others.
    private static let floodPercent = 4

    init(_ random: inout SeededGenerator, floods: Bool? = nil) {
        durability = random.chance(60) ? .always : random.chance(50) ? .interval : .none
        lifeCount = .random(in: 2...6, using: &random)
        stepLimit = random.pick([40, 120, 300])
        segmentByteLimit = random.pick([1 << 10, 4 << 10, 16 << 10, 1 << 20])
        reservationByteCount = random.pick([512, 4 << 10, 64 << 10])
        // Small enough for the room of a prepared segment to be all there is, or as in a server.
        (lowRoomByteCount, spareRoomByteCount) = random.pick([
            (300, 2 << 10), (2 << 10, 8 << 10), (8 << 20, 1 << 20), (8 << 20, 1 << 20),
        ])
        checkpointByteLimit = random.pick([1 << 10, 4 << 10, 16 << 10, 1 << 20])
        hasFullDisks = random.chance(25)
        hasSlowLoops = random.chance(15)
        failuresInTenThousand = random.chance(30) ? random.pick([20, 100, 500]) : 0
        hasRot = random.chance(25)
        let step = random.pick([50_000, 100_000, 300_000]) as UInt64
        let isChosen = random.chance(Self.floodPercent)
        workStep = floods ?? isChosen ? step : 0
        guard hasFloods else { return }
        // Which of many requests was refused would have to be found out.
        (hasFullDisks, failuresInTenThousand) = (false, 0)
        hasSlowLoops = false
        lifeCount = min(lifeCount, 3)
    }

    var description: String {
        "\(durability), segments of \(segmentByteLimit), checkpoints after \(checkpointByteLimit)"
            + (hasFullDisks ? ", full disks" : "") + (hasSlowLoops ? ", slow loops" : "")
            + (failuresInTenThousand > 0 ? ", \(failuresInTenThousand) failures in 10 000" : "")
            + (hasRot ? ", rot" : "")
            + (hasFloods ? ", floods of requests of \(workStep / 1000) µs" : "")
    }
}

extension SeededGenerator {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    /// - Precondition: There is something to pick.
    mutating func pick<Choice>(_ choices: [Choice]) -> Choice {
        choices[Int.random(in: 0..<choices.count, using: &self)]
    }
}
