import PandoDatabase
import PandoTime

/// Whether the databases still get on. The admin port has a thread of its own, which answers also where they
/// do not.
struct DatabaseHealth {
    /// How long one turn of the databases may take before they count as blocked (our own limit). The longest
    /// that are known take some tenths of a second, and a second for a write of a gigabyte.
    static let turnLimit: Duration = .seconds(10)

    /// How long the turn has taken that is not finished; nil between two turns.
    let unfinishedTurn: Duration?

    /// Why no request of a client is answered; nil where nothing is wrong.
    var problem: String? {
        guard let unfinishedTurn, unfinishedTurn > Self.turnLimit else { return nil }
        return "blocked: the databases have not finished a turn for \(unfinishedTurn.components.seconds) s"
    }
}
