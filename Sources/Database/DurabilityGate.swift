/// Holds outputs back until the journal entries that they depend on are durable, and releases them in the
/// order in which they were decided.
///
/// Every entry of the journal has a ticket: 1 for the first, then one more each. The outputs of a batch wait
/// for the ticket of the last entry that was appended when the batch ended, whether they are about that entry
/// or not: a client must see nothing that a crash could undo.
///
///     hold(a, 3)   hold(b, 3)   hold(c, 5)
///     held:  a 3 ─ b 3 ─ c 5        confirm(4), release: a, b        confirm(5), release: c
///
/// Invariants: the tickets of what is held ascend; everything that is released has a ticket that is durable;
/// nothing overtakes what was held before it. A value without thread, clock or queue.
struct DurabilityGate<Outputs> {
    /// Outputs that were decided together.
    struct Held {
        /// What must be durable before they are released.
        let ticket: UInt64
        var outputs: Outputs
        /// Bytes of the requests that they belong to.
        let requestByteCount: Int
    }

    /// Everything up to this ticket is as durable as was asked for.
    private(set) var durableTicket: UInt64 = 0
    /// The oldest first.
    private var held: [Held] = []

    /// Whether nothing waits.
    var isEmpty: Bool { held.isEmpty }

    /// Batches of outputs that wait: one for each call of ``hold(_:until:requestByteCount:)``.
    var count: Int { held.count }

    /// Whether everything up to a ticket is durable.
    func isDurable(_ ticket: UInt64) -> Bool { ticket <= durableTicket }

    /// Holds outputs until `ticket` is durable. If it already is, they still leave only with the next
    /// ``release(_:)``.
    /// - Parameter ticket: That of the last entry appended so far; not less than that of the call before.
    mutating func hold(_ outputs: consuming Outputs, until ticket: UInt64, requestByteCount: Int) {
        precondition(ticket >= held.last?.ticket ?? 0, "an output waits for less than the one before it")
        precondition(requestByteCount >= 0)
        held.append(Held(ticket: ticket, outputs: outputs, requestByteCount: requestByteCount))
    }

    /// Notes that everything up to `ticket` is durable. Does nothing for a ticket that is known to be
    /// durable: the journal thread may report one twice.
    mutating func confirm(upTo ticket: UInt64) {
        durableTicket = max(durableTicket, ticket)
    }

    /// Removes the outputs whose ticket is durable, the oldest first, and gives each to `body`.
    /// - Complexity: O(``count``): those that stay move to the front. O(1) when none is durable.
    // Inlined: a closure that is called costs as much as all the rest of it.
    @inline(__always)
    mutating func release(_ body: (inout Held) -> Void) {
        var count = 0
        while count < held.count, held[count].ticket <= durableTicket {
            body(&held[count])
            count += 1
        }
        held.removeFirst(count)
        assert(held.first.map { $0.ticket > durableTicket } ?? true)
    }

    /// Takes out everything that waits, durable or not, the oldest first.
    mutating func removeAll() -> [Outputs] {
        defer { held = [] }
        return held.map(\.outputs)
    }
}
