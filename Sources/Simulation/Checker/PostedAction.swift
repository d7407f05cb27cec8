/// What a client has asked for and the databases have got, in the order in which they got it.
struct PostedAction {
    /// When a turn of the databases has taken it.
    struct Taken {
        var turn: Int
        /// Nanoseconds of work before that turn.
        var work: UInt64
        /// Requests of its session that were not done, itself included.
        var aheadCount: Int
        /// Sessions of its namespace that might ask.
        var flowCount: Int
        /// Sessions that had come by then.
        var newcomerCount: Int
    }

    var session: UInt64
    /// Nil where an answer carries none: opening, closing, REST.
    var number: Int?
    var person: Person
    var namespace: String
    var action: ClientAction
    /// When the databases took it.
    var time: Int64?
    /// What was acknowledged then.
    var acknowledgedIndex = 0
    /// Where sessions take turns: its place among all, and when it was taken.
    var arrival = 0
    var taken: Taken?

    var isClose: Bool { if case .close = action { true } else { false } }
    var isStream: Bool { if case .stream = action { true } else { false } }
}
