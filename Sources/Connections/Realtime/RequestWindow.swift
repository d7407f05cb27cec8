/// How much of what one client asks for is handed on at a time; the rest stays in its socket.
///
///     requests ─▶ ▢▢▢▢ mark ▢▢▢▢ mark │ full: nothing more is read          a mark comes back behind the answers to all
///                  ◀── mark comes back │ half of the window is free again    requests before it
///
/// So a client that sends without end waits for its own answers, and holds no more than a window of the
/// server's memory and of the databases' time. A value: it decides, and the session posts marks and pauses.
///
/// The first mark on its way comes early, so that it shows soon whether the client waits for its answers
/// (``isLarge``).
package struct RequestWindow {
    /// Requests between two marks: enough to keep a fast client's link busy.
    package static let requestLimit = 128
    /// Bytes of requests between two marks.
    package static let byteLimit = 256 << 10
    /// Bytes of requests before a mark where no other is on its way.
    package static let firstByteLimit = 64 << 10
    /// Marks on their way at which the window is full.
    package static let markLimit = 2

    /// Requests and their bytes since the last mark.
    private var requestCount: UInt16 = 0
    private var byteCount: UInt32 = 0
    /// Marks that have not come back.
    private var markCount: UInt8 = 0

    /// Nothing more is handed on until a mark comes back.
    package var isFull: Bool { markCount >= Self.markLimit }

    /// Whether the client has handed on more than any client may before others: it has gone on while a mark
    /// was on its way. A client that waits for its answers never has, however much it has asked for in all.
    /// See `SessionServices.countPosted(hasManyRequests:)`.
    package var isLarge: Bool { isFull || markCount > 0 && requestCount > 0 }

    /// Requests before a mark are not answered yet.
    package var awaitsMark: Bool { markCount > 0 }

    /// A request is handed on.
    /// - Returns: Whether a mark is to follow it.
    package mutating func add(byteCount: Int) -> Bool {
        requestCount += 1
        self.byteCount = UInt32(clamping: Int(self.byteCount) + byteCount)
        let byteLimit = markCount == 0 ? Self.firstByteLimit : Self.byteLimit
        guard requestCount >= Self.requestLimit || self.byteCount >= byteLimit else { return false }
        requestCount = 0
        self.byteCount = 0
        markCount += 1
        return true
    }

    /// A mark has come back.
    package mutating func returnMark() {
        assert(markCount > 0, "a mark came back that was never sent")
        if markCount > 0 { markCount -= 1 }
    }
}
