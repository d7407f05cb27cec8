import PandoHTTP
import PandoREST
import PandoStaticFiles

/// What the operator and the loop decide for all connections of one loop.
package struct ConnectionSettings {
    /// The number of the loop, and how many loops there are.
    package var loopIndex: UInt8 = 0
    package var loopCount = 1
    /// Bytes that may be unsent to one client before it is disconnected, and the count at or below which its
    /// output counts as taken.
    package var outboundByteLimit = 64 << 20
    package var outboundLowWaterByteCount = 64 << 10
    /// Bytes of one message of a client, and the chunks that it may announce for one.
    package var messageByteLimit = 16 << 20
    package var chunkCountLimit = 1100
    /// What exceeds these in the head of a request is refused.
    package var headLimits = HeadLimits()
    package var limits = ClientLimits()
    /// Bytes of the response to one REST read, and of one REST write.
    package var readByteLimit = RESTLimits.readByteCount
    package var writeByteLimit = RESTLimits.writeByteCount
    /// Silence after which an HTTP connection is closed.
    package var idleTimeout: Duration = .seconds(75)
    /// Silence on a WebSocket after which it is pinged.
    package var pingSilence: Duration = .seconds(75)
    /// By then a request's head must be there, and over any such time input must be fast enough.
    package var requestTimeout: Duration = .seconds(30)
    /// A client that falls behind the minimum rate by so much is disconnected (``OutputRate``).
    package var stallTimeout: Duration = .seconds(30)
    /// How long a poll waits for messages.
    package var pollHoldTime: Duration = .seconds(20)
    /// Time without a poll after which a client of long polling is gone.
    package var pollGap: Duration = .seconds(60)
    /// `--dev`: requests are served only for programs and pages of this machine.
    package var isDevelopment = false
    /// Each HTTP request is logged (``HTTPAction/logAccess(_:)``).
    package var logsAccess = false
    /// Pages from elsewhere that may use a server under ``isDevelopment``.
    package var allowedOrigins: [WebOrigin] = []
    /// Compresses responses that are there as a whole.
    package var compressor: ResponseCompressor?
    /// Files that are served beside the data; nil for none.
    package var siteHolder: StaticSiteHolder?

    package init() {}
}

/// Limits that are no options.
package enum ConnectionLimits {
    /// A body or message up to this size is parsed on the loop; a larger one takes milliseconds, and a
    /// worker.
    package static let smallByteCount = 64 << 10
    /// Bytes per second of the slowest client that is served, in both directions (the `MinRate` of Apache
    /// httpd's mod_reqtimeout).
    package static let slowestBytesPerSecond = 500
    /// Bytes that may be unsent to a client before the server pauses it: reads no more from it.
    package static let pausedAtByteCount = 1 << 20
    /// Bytes that may be unsent to a client before what is pushed to it is coalesced (`PushCoalescer`).
    package static let laggingByteCount = 256 << 10
}
