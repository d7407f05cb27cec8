/// The honest clients that run beside the attackers.
enum HonestKind: String, CaseIterable, Sendable {
    /// Takes 12 MB at 60…250 KB/s, with a keep-alive every 45 s.
    case slowDownload = "slow-download"
    /// Reads one push of 5 MB at 30 KB/s.
    case slowPush = "slow-push"
    /// Asks for 1 MB 200 times in one burst and reads the replies as fast as it can.
    case burst
    /// Reads what a writer changes at 10 KB/s, and must have the final state at the end.
    case slowReaders = "slow-readers"
}
