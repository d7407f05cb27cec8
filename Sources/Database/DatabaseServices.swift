import Logging
import PandoStorage

/// What the databases use of the process around them.
package struct DatabaseServices: Sendable {
    let environment: Environment
    let metrics: DatabaseMetrics
    let logger: Logger
    let preparation: PreparationWorkers
    let post: @Sendable (DatabaseMessage) -> Void

    /// - Parameters:
    ///   - preparation: How long computations are left to other threads.
    ///   - post: Posts a message to the databases, from any thread.
    package init(
        environment: Environment = .machine, metrics: DatabaseMetrics = DatabaseMetrics(), logger: Logger,
        preparation: PreparationWorkers, post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        self.environment = environment
        self.metrics = metrics
        self.logger = logger
        self.preparation = preparation
        self.post = post
    }
}
