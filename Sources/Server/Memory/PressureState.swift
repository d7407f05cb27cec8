import PandoTime

/// What a loop does about the memory that its sessions hold.
struct PressureState {
    /// Bytes of the loop that ``MemoryBudget`` knows.
    var publishedByteCount = 0
    /// Sessions are paused because the process holds too much.
    var isPressing = false
    /// When sessions were last paused or disconnected for it.
    var began = MonotonicTime(nanoseconds: 0)
    /// Since when the process holds more than it may; nil while it does not.
    var exceededSince: MonotonicTime?
    /// Sessions that were disconnected since the last report.
    var cutCount = 0
    var lastReport: MonotonicTime?
}
