/// Commands of the coordinator of a hostile run to the bystander.
enum BystanderCommand: Sendable {
    case connect
    /// Operations are due from `start` up to `end`, both on the machine's clock; then the phase waits for the
    /// responses that are missing.
    case begin(start: Int, end: Int)
    /// No more operations are due in this phase.
    case stop
    /// The server is gone: counts what is missing, and ends the phase.
    case giveUp
    /// Reads back what was acknowledged.
    case check
}

/// Messages of the threads of a hostile run to the coordinator.
enum HostileNotice: Sendable {
    case bystanderReady
    case measured(BystanderMeasure)
    case checked(count: Int, lost: Int)
    /// An honest client lost its connection.
    case cut(String)
    case honestFinished(work: [String], problems: [String])
    case attackStopped(AttackThread.Report)
    case broken(String)
}
