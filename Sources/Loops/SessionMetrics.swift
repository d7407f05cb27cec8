import PandoDatabase
import PandoMetrics
import PandoREST
import PandoTime

/// What the sessions of one I/O loop count. Added to by the loop's thread, read by any.
package final class SessionMetrics: Sendable {
    /// Why a client was disconnected that takes too little, or holds too much.
    package enum Cut: UInt8, CaseIterable, Sendable {
        /// Too little in too long a time.
        case tooSlow
        /// Memory was short (``MemoryBudget``).
        case memory
    }

    package enum Verification: UInt8, CaseIterable, Sendable {
        case accepted, refused
        /// Found among those that were verified lately.
        case remembered
    }

    package let http = Gauge()
    package let webSockets = Gauge()
    package let polling = Gauge()
    /// Memory that clients make this loop hold: what ``LoopMemory/publishHeldBytes()`` publishes.
    package let heldBytes = Gauge()
    package let cuts = CounterTable<Cut>()
    package let verifications = CounterTable<Verification>()
    /// How often clients exceeded a limit.
    package let limits = CounterTable<ClientLimit>()
    /// Writes that waited because of a limit.
    package let delays = CounterTable<ClientLimit>()
    package let replies = Counter()
    /// Pushes to clients: a push to a thousand listeners counts a thousand.
    package let pushes = Counter()
    /// Nanoseconds from the reading of a request until its reply, or the pushes that it caused, were given to
    /// the kernel. Requests that were answered together count with the time of the oldest.
    package let acknowledgements = Histogram.durations
    package let deliveries = Histogram.durations
}
