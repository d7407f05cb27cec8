/// What the server may have forgotten after it has died.
enum Loss: Comparable {
    /// Nothing that a client has received: the process died, or every write is synced.
    case nothing
    /// What was not synced a tenth of a second after it was released.
    case lastMoment
    /// What was not synced when the process began.
    case sinceStart
    /// A bit has changed: what no later record vouches for.
    case unmarked
    /// Several have.
    case anything
}

/// The checker of durability: every state that there was, and how far each promise reaches.
struct StateHistory {
    private(set) var states = [ReferenceState()]
    /// The last state that the databases have released.
    private(set) var releasedIndex = 0
    /// The last state of which a client has decoded anything.
    private(set) var heardIndex = 0
    /// Everything up to here survives a power cut, in the mode `interval`.
    private(set) var syncedIndex = 0
    /// Where this life of the server began.
    private(set) var startIndex = 0
    /// Each with the moment of its release.
    private var releases: [(index: Int, milliseconds: Int64)] = []
    /// Records that vouch for what was durable when they were written: by their places in ``states``. As long
    /// as one is there, what it vouches for survives one flipped bit.
    private var vouchers: [(index: Int, for: Int)] = []

    /// In the mode `interval`: how long a released write may stay unsynced.
    private static let syncMilliseconds: Int64 = 100

    var lastIndex: Int { states.count - 1 }
    /// Everything up to here survives one flipped bit.
    var markedIndex: Int { vouchers.last?.for ?? 0 }

    mutating func append(_ state: ReferenceState) {
        if state != states[lastIndex] { states.append(state) }
    }

    /// The databases have released what belongs to the last state.
    mutating func released(at milliseconds: Int64) {
        releasedIndex = lastIndex
        if releases.last?.index != lastIndex { releases.append((lastIndex, milliseconds)) }
    }

    /// A client has decoded something that was released with a state.
    mutating func heard(_ index: Int) { heardIndex = max(heardIndex, index) }

    /// The record of the last state has been written: what was acknowledged before it is durable.
    mutating func vouch(for acknowledgedIndex: Int) {
        if acknowledgedIndex > markedIndex { vouchers.append((lastIndex, acknowledgedIndex)) }
    }

    /// The journal thread has had a turn, at a moment of the monotonic clock.
    mutating func journalTurn(at milliseconds: Int64) {
        while let first = releases.first, first.milliseconds <= milliseconds - Self.syncMilliseconds {
            syncedIndex = max(syncedIndex, first.index)
            releases.removeFirst()
        }
    }

    /// The first state that may be there.
    func floor(_ loss: Loss) -> Int {
        switch loss {
        case .nothing: heardIndex
        case .lastMoment: max(syncedIndex, startIndex)
        case .sinceStart: startIndex
        case .unmarked: min(markedIndex, lastIndex)
        case .anything: 0
        }
    }

    /// Records behind a state are gone.
    mutating func forgetVouchers(behind index: Int) { vouchers.removeAll { $0.index > index } }

    /// The server was started again, with this state.
    mutating func restart(with state: ReferenceState) {
        states.append(state)
        (startIndex, syncedIndex, heardIndex, releasedIndex) = (lastIndex, lastIndex, lastIndex, lastIndex)
        releases = []
    }

    /// States that were never released, and are in the journal all the same.
    mutating func append(unreleased new: [ReferenceState]) { states += new }
}
