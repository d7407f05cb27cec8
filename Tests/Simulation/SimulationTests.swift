import PandoRandom
import Testing

@testable import PandoSimulation

/// Whole seeds.
@Suite struct SimulationTests {
    static func failure(seed: UInt64, floods: Bool?, _ fault: PlantedFault?) -> String? {
        do {
            try Simulation(seed: seed, log: .forget, floods: floods, fault: fault).run()
            return nil
        } catch { return "seed \(seed): \(error)" }
    }

    @Test(arguments: 0..<12 as Range<UInt64>) func promisesAreKept(seed: UInt64) {
        #expect(Self.failure(seed: seed, floods: false, nil) == nil)
    }

    @Test(arguments: 0..<2 as Range<UInt64>) func promisesAreKeptWhileSessionsFlood(seed: UInt64) {
        #expect(Self.failure(seed: seed, floods: true, nil) == nil)
    }

    @Test(arguments: 0..<16 as Range<UInt64>) func theSameSeedGivesTheSameEvents(seed: UInt64) throws {
        let logs = try (0..<2).map { _ in
            let simulation = Simulation(seed: seed, log: .digest, floods: false)
            try simulation.run()
            return simulation.log.digest
        }
        #expect(logs[0] == logs[1])
    }

    @Test(
        arguments: [
            // the server …                                                      and the checker says
            (.sendsPushAfterReply, false, "the order is wrong"),
            (.sendsBeforeDurable, false, "after the start"),
            (.forgetsResume, false, "nothing is left to do"),
            (.losesDataBeforeClose, false, "gets no response"),
            (.swapsRequests, true, "out of its order"),
            (.starves, true, "starves"),
            (.losesWrite, true, "out of its order"),
            (.servesEndedSession, true, "is done after a request of turn"),
        ] as [(PlantedFault, Bool, String)])
    func plantedFaultIsFound(fault: PlantedFault, floods: Bool, text: String) {
        // In one seed the fault may not show.
        let seeds = 0..<Self.seedLimit(fault)
        let found = seeds.lazy.compactMap { Self.failure(seed: $0, floods: floods, fault) }
            .first
        #expect(found?.contains(text) == true, "\(found ?? "nothing in \(seeds.count) seeds")")
    }

    /// Seeds within which a planted fault is found.
    private static func seedLimit(_ fault: PlantedFault) -> UInt64 {
        switch fault {
        // Only clients with TLS can meet it; half of the seeds have some.
        case .losesDataBeforeClose: 60
        // It shows only if the client waits for something after the resume that was lost.
        case .forgetsResume: 60
        default: 30
        }
    }
}
