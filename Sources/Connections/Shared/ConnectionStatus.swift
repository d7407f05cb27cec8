/// What the loop follows of a connection after each event.
package struct ConnectionStatus {
    /// Bytes of what the client has begun to send, or that a thread has.
    package let unfinishedByteCount: Int
    /// Bytes that wait, of the client's or for it.
    package let waitingByteCount: Int
    /// Why the client is paused.
    package let pauses: PauseReasons
    /// Bytes of the socket's next reads.
    package let readByteLimit: Int
    /// Whether the next event needs ``SocketStatus/acknowledgedByteCount``, also where nothing is unsent.
    package let needsAcknowledgedByteCount: Bool
}
