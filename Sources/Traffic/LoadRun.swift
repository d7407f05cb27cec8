extension WorkerParts {
    /// A client for each protocol, and a scenario for each kind of work.
    static let standard = WorkerParts { index, worker in
        switch worker.plan.target.wireProtocol {
        case .realtime: RealtimeClient(index, of: worker)
        case .rest: RESTClient(index, of: worker)
        case .redis: RedisClient(index, of: worker)
        case .echo: EchoClient(index, of: worker)
        }
    } makeScenario: { worker in
        switch worker.plan.work {
        case .fanOut(let topics): FanOutScenario(worker, topics: topics)
        case .writes: WritesScenario(worker)
        case .chat(let rooms): ChatScenario(worker, rooms: rooms)
        case .counter(let counters, let share): CounterScenario(worker, counters: counters, share: share)
        case .query(let items, let limit, let writers, let share):
            QueryScenario(worker, items: items, limit: limit, writers: writers, readShare: share)
        case .presence(let watchers): PresenceScenario(worker, watchers: watchers)
        case .reconnectStorm: ReconnectScenario(worker)
        case .restart: RestartScenario(worker)
        case .idle(let listens): IdleScenario(worker, listens: listens)
        case .rest(let share): RESTScenario(worker, readShare: share)
        }
    }
}

extension Plan {
    /// Runs the plan to its end. Blocks; every wait has a deadline. Signals must be blocked already: Ctrl-C
    /// ends the run early.
    /// - Parameter showsProgress: Writes a line to a terminal's stderr, over and over.
    /// - Throws: When there are no loops or threads to be had. What goes wrong later is in the outcome.
    package func run(showsProgress: Bool) throws -> Outcome {
        try Coordinator.run(self, .standard, showsProgress: showsProgress)
    }
}
