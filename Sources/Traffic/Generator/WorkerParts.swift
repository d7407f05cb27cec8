/// Makes the parts of a worker that depend on the protocol and on the work, so that the generator does not
/// know the folders that extend it.
struct WorkerParts: Sendable {
    /// - Parameter index: The connection's number; -1 for the one that prepares and removes the data.
    let makeClient:
        @Sendable (
            _ index: Int, _ context: WorkerContext, _ delegate: any ClientDelegate,
            _ pushes: any PushReceiver
        ) -> Client
    let makeScenario: @Sendable (_ context: WorkerContext, _ worker: any ScenarioDelegate) -> Scenario
}
