import PandoConnections
import PandoTime

/// What one loop does about the memory that clients hold, as far as the pressure and the time decide it;
/// ``LoopMemory`` does it.
///
///     calm ──3/4 of the limit──▶ pressed ──2 s──▶ relieving        sessions are disconnected until 3/4 is
///       ▲                          └───the limit───▶ │             left (``MemoryRelief``)
///       └────────below 3/4, after a moment───────────┘
///
/// From `pressed` it returns to `calm`, too, and from `relieving` to `pressed` where no session may be
/// disconnected. It has no sessions, threads or clock, so that a table of tests can show every course.
struct MemoryStages {
    enum Stage: Equatable {
        case calm
        /// Those that hold most are paused.
        case pressed
        /// Sessions are disconnected, those that make no progress first.
        case relieving
    }

    /// What is to be done now.
    struct Step: Equatable {
        /// A scan of all sessions begins; those that hold most are paused.
        var beginsPausing = false
        /// A scan ends; the sessions that it has chosen are neither paused nor disconnected.
        var endsRelief = false
        /// Sessions that are paused for these reasons are read again.
        var resumes: PauseReasons = []
    }

    /// How long more than 3/4 may be held while those that hold most are paused.
    static let pressedPatience: Duration = .seconds(2)
    /// How long the limit may be exceeded before sessions that hold little are disconnected, too.
    static let smallPatience: Duration = .milliseconds(250)
    /// Sessions that make steady progress are disconnected when the limit has been exceeded for so long
    /// without another disconnection, or for ``longestSteadyPatience`` in any case: what others held takes a
    /// moment to be freed.
    static let steadyPatience: Duration = .seconds(2)
    static let longestSteadyPatience: Duration = .seconds(10)
    /// How long after the pressure, or after the last disconnection, paused sessions are read again.
    static let resumptionWait: Duration = .milliseconds(500)

    private(set) var stage = Stage.calm
    /// When the stage began, or a session was last disconnected.
    private var stageTime = MonotonicTime(nanoseconds: 0)
    /// Since when the limit is exceeded; nil while it is not.
    private var exceededSince: MonotonicTime?
    /// When it was last exceeded, while sessions may be paused for it; nil after they were resumed.
    private var lastExceeded: MonotonicTime?
    /// When a session without steady progress was last disconnected.
    private var lastDisconnection = MonotonicTime(nanoseconds: 0)

    var isExceeded: Bool { exceededSince != nil }

    /// Called twice in each tick, with the pressure of now. O(1).
    mutating func observe(_ pressure: MemoryBudget.Pressure, at now: MonotonicTime) -> Step {
        var step = Step()
        if pressure == .exceeded {
            exceededSince = exceededSince ?? now
            lastExceeded = now
        } else {
            exceededSince = nil
            // Sessions with incomplete input are read again soon, also where more than 3/4 is held for long.
            if let last = lastExceeded, now - last > Self.resumptionWait {
                lastExceeded = nil
                step.resumes = .incompleteInput
            }
        }
        switch pressure {
        case .none, .moderate:
            guard stage != .calm else { break }
            step.endsRelief = true
            // At once below half of the limit, else after a while: others may hold memory for hours.
            guard pressure == .none || now - stageTime > Self.resumptionWait else { break }
            stage = .calm
            lastExceeded = nil
            step.resumes = [.memory, .incompleteInput]
        case .high:
            // Clients that are paused can take what they have asked for, which helps; what is half received
            // does not get less.
            if stage == .calm {
                begin(.pressed, at: now)
                step.beginsPausing = true
            } else if stage == .pressed, now - stageTime > Self.pressedPatience {
                begin(.relieving, at: now)
            }
        case .exceeded: if stage != .relieving { begin(.relieving, at: now) }
        }
        return step
    }

    /// A session was disconnected.
    /// - Parameter isSteady: It made steady progress.
    mutating func noteDisconnection(ofSteady isSteady: Bool, at now: MonotonicTime) {
        stageTime = now
        if !isSteady { lastDisconnection = now }
    }

    /// A scan has found no session that may be disconnected. Below the limit, those that are left
    /// may still read what they hold.
    mutating func noteNoneToDisconnect(at now: MonotonicTime) {
        if stage == .relieving, !isExceeded { begin(.pressed, at: now) }
    }

    /// Which sessions may be disconnected now.
    /// - Parameter othersRelieve: Other loops have sessions without progress that hold much: until these are
    ///   gone no others are disconnected, for ``longestSteadyPatience`` at most.
    func reach(at now: MonotonicTime, whileOthersRelieve othersRelieve: Bool) -> MemoryRelief.Reach {
        guard let exceededSince else { return .large }
        let duration = now - exceededSince
        if othersRelieve, duration <= Self.longestSteadyPatience { return .large }
        if now - max(exceededSince, lastDisconnection) > Self.steadyPatience
            || duration > Self.longestSteadyPatience
        {
            return .steady
        }
        return duration > Self.smallPatience ? .small : .large
    }

    private mutating func begin(_ next: Stage, at now: MonotonicTime) {
        stage = next
        stageTime = now
    }
}
