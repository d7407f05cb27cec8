import PandoConnections

/// The socket of a connection under test: what the machine has written, how much of it the client has taken,
/// and how the connection has ended.
struct ScriptedSocket {
    /// How the machine has ended the connection: what is written behind is dropped.
    private(set) var end: String?
    /// The client takes what it is sent behind each event; otherwise with ``take(_:)``.
    var takesAll = true
    /// The peer is a trusted proxy.
    var isTrustedProxy = false
    /// The client has shown an administrator's certificate.
    var isAdministrator = false
    private(set) var writtenByteCount = 0
    private(set) var unsentByteCount = 0
    private var isAboveLowWater = false
    private let lowWaterByteCount: Int

    init(lowWaterByteCount: Int) { self.lowWaterByteCount = lowWaterByteCount }

    var status: SocketStatus {
        var status = SocketStatus()
        status.unsentByteCount = unsentByteCount
        status.writtenByteCount = writtenByteCount
        status.acknowledgedByteCount = writtenByteCount - unsentByteCount
        status.isOpen = end == nil
        status.isTrustedProxy = isTrustedProxy
        status.isAdministrator = isAdministrator
        return status
    }

    /// - Returns: false where the bytes are dropped.
    mutating func write(_ byteCount: Int) -> Bool {
        guard end == nil else { return false }
        writtenByteCount += byteCount
        unsentByteCount += byteCount
        if unsentByteCount > lowWaterByteCount { isAboveLowWater = true }
        return true
    }

    /// The client takes bytes.
    /// - Returns: Whether the connection is to be told that its output has drained.
    mutating func take(_ byteCount: Int) -> Bool {
        unsentByteCount = max(0, unsentByteCount - byteCount)
        guard isAboveLowWater, unsentByteCount <= lowWaterByteCount else { return false }
        isAboveLowWater = false
        return end == nil
    }

    mutating func end(_ how: String) { end = end ?? how }
}
