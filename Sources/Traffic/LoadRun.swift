extension WorkerParts {
    /// A client for each protocol, and a scenario for each kind of work.
    static let standard = WorkerParts { index, context, delegate, pushes in
        switch context.plan.target.wireProtocol {
        case .realtime: RealtimeClient(index, context, delegate, pushes)
        case .rest: RESTClient(index, context, delegate, pushes)
        case .redis: RedisClient(index, context, delegate, pushes)
        case .echo: EchoClient(index, context, delegate, pushes)
        }
    } makeScenario: { context, worker in
        switch context.plan.work {
        case .fanOut(let topics): FanOutScenario(context, worker, topics: topics)
        case .writes: WritesScenario(context, worker)
        case .chat(let rooms): ChatScenario(context, worker, rooms: rooms)
        case .counter(let counters, let share):
            CounterScenario(context, worker, counters: counters, share: share)
        case .query(let items, let limit, let writers, let share):
            QueryScenario(context, worker, items: items, limit: limit, writers: writers, readShare: share)
        case .presence(let watchers): PresenceScenario(context, worker, watchers: watchers)
        case .reconnectStorm: ReconnectScenario(context, worker)
        case .restart: RestartScenario(context, worker)
        case .idle(let listens): IdleScenario(context, worker, listens: listens)
        case .rest(let share): RESTScenario(context, worker, readShare: share)
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
