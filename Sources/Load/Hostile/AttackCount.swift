/// Counts of the connections of one role.
struct AttackCount: Sendable {
    let role: String
    var opened = 0
    /// Ended by the server, or failed.
    var cut = 0
    var requests = 0
    var sentByteCount = 0
    var receivedByteCount = 0

    /// `12 connections, 481 000 pings, 64 MB sent, 0 MB read, 3 cut`
    var words: String {
        var parts = ["\(opened) connections"]
        if requests > 0 { parts.append("\(requests) \(role)") }
        parts.append("\(sentByteCount / 1_000_000) MB sent")
        if receivedByteCount >= 1_000_000 { parts.append("\(receivedByteCount / 1_000_000) MB read") }
        if cut > 0 { parts.append("\(cut) cut") }
        return parts.joined(separator: ", ")
    }
}
