import PandoWebSocket

/// In which form a session takes the frames that it may share with others.
package enum OutputForm: Equatable, Sendable {
    /// As they are, for a WebSocket.
    case frames
    /// With their messages compressed for a deflate window, for a WebSocket that has agreed on it.
    case deflated(DeflateWindow)
    /// As the elements of a list in a script, for long polling (realtime §1.5.2).
    case script

    /// - Parameter window: nil where messages are not compressed.
    package init(compressingFor window: DeflateWindow?) {
        self = window.map { OutputForm.deflated($0) } ?? .frames
    }
}
