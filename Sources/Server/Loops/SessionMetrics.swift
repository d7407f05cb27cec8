import PandoDatabase
import PandoMetrics
import PandoREST
import PandoTime

/// What the sessions of one I/O loop count. Added to by the loop's thread, read by any.
final class SessionMetrics: Sendable {
    /// Why a client was disconnected that takes too little, or holds too much.
    enum Cut: UInt8, CaseIterable, Sendable {
        /// Too little in too long a time.
        case tooSlow
        /// Memory was short (``MemoryBudget``).
        case memory
    }

    enum Verification: UInt8, CaseIterable, Sendable {
        case accepted, refused
        /// Found among those that were verified lately.
        case remembered
    }

    let http = Gauge()
    let webSockets = Gauge()
    let polling = Gauge()
    /// Memory that clients make this loop hold: what ``LoopMemory/publishHeldBytes()`` publishes.
    let heldBytes = Gauge()
    let cuts = CounterTable<Cut>()
    let verifications = CounterTable<Verification>()
    /// How often clients exceeded a limit.
    let limits = CounterTable<ClientLimit>()
    /// Writes that waited because of a limit.
    let delays = CounterTable<ClientLimit>()
    let replies = Counter()
    /// Pushes to clients: a push to a thousand listeners counts a thousand.
    let pushes = Counter()
    /// Nanoseconds from the reading of a request until its reply, or the pushes that it caused, were given to
    /// the kernel. Requests that were answered together count with the time of the oldest.
    let acknowledgements = Histogram.durations
    let deliveries = Histogram.durations
}
