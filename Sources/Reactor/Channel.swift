import COperatingSystem
import PandoBytes
import PandoTLS
import PandoTime

/// A connected TCP socket that belongs to a loop. Confined to the loop's thread.
///
///               ┌────── closeAfterFlush() ──────┐
///     open ─────┤                               ▼                    all sent
///       │       └──── (nothing unsent) ────▶ flushing ─────────────────────────▶ lingering
///       │                                       │   FIN goes out; input is dropped until the peer's FIN
///       └── close(), error, limit, … ──▶ closed ◀───────────────────────────────────┘
///
/// Lingering is needed because closing a socket with unread input sends RST, and the peer may drop the last
/// reply when it gets the RST.
///
/// An idle channel costs its object (about 200 bytes) and a slot in the loop.
package final class Channel: Pollable {
    enum Phase { case open, flushing, lingering, closed }

    package let loop: EventLoop
    // Of the loop. Here, because to reach them through it would cost a retain and a release each time.
    let buffers: LoopBuffers
    let flushes: FlushList
    let poller: Poller
    let metrics: LoopMetrics
    let lowWaterByteCount: Int
    /// Gets the channel's events. May be replaced at any time, also from inside its own `received`.
    package var delegate: (any ChannelDelegate)? {
        get { currentDelegate }
        set { currentDelegate = newValue }
    }
    /// Most bytes that may wait to be sent; above this the channel is disconnected.
    package let outboundByteLimit: Int
    /// Bytes that were written to the channel and that the kernel has not accepted yet. O(1).
    package var outboundByteCount: Int { output.unsentByteCount }
    /// Bytes written so far, in all.
    package var writtenByteCount: Int { output.writtenByteCount }
    // Internal storage behind the package properties: the compiler then sees every access in this module, and
    // omits accessor calls.
    var currentDelegate: (any ChannelDelegate)?
    var output = ChannelOutput()
    /// Most bytes that one `received` gets; never more than the loop's receive buffer holds. The rest stays
    /// in the socket until the loop's other channels were read. With TLS, the end of a record that was read
    /// in part may come on top: less than 16 KiB.
    package var readByteLimit = Int.max

    var phase = Phase.open
    var isReadingPaused = false
    /// The peer's FIN was received.
    var hasEnded = false
    var isInFlushList = false
    var readPace = ReadPace()
    /// It is new, and is read beside those that send little (``Poller/beginNewInMainSet()``).
    private var isNewInMainSet = false
    /// When the socket was last read (``FlushList/milliseconds``).
    var lastReadMilliseconds: UInt32 = 0
    /// Milliseconds after a read in which what is written is flushed before pushes to others.
    static let promptTime: UInt32 = 100
    /// Set it where ``acknowledgedByteCount`` is needed after the connection is closed: the count is then
    /// stored when it closes, which costs a system call.
    package var remembersAcknowledgedBytes = false
    /// Whether it was accepted in the administrators' reserve (``ConnectionLimiter``).
    package private(set) var isReserved = false
    var limiter: ConnectionLimiter?
    /// Encrypts and decrypts; nil without TLS (``PlainStage``).
    var secure: SecureStage?
    /// What the proxy says of its client; nil where the peer is no trusted proxy.
    var proxy: ProxyStage?
    /// How it was closed; nil while it is not.
    var ending: Ending?

    /// A channel that is open needs no place for it.
    final class Ending {
        let reason: ChannelCloseReason
        /// ``acknowledgedByteCount`` when the channel closed, if ``remembersAcknowledgedBytes``.
        let acknowledgedByteCount: Int?

        init(_ reason: ChannelCloseReason, acknowledgedByteCount: Int?) {
            self.reason = reason
            self.acknowledgedByteCount = acknowledgedByteCount
        }
    }

    /// Counts the connection of its address until it is closed; nil where that is not limited.
    package var grant: AddressLimiter.Grant?

    private init(connected descriptor: Int32, loop: EventLoop) {
        self.loop = loop
        buffers = loop.buffers
        flushes = loop.flushes
        poller = loop.poller
        metrics = loop.metrics
        lowWaterByteCount = loop.configuration.outboundLowWaterByteCount
        outboundByteLimit = loop.configuration.outboundByteLimit
        super.init(descriptor: descriptor)
    }

    /// Makes a channel of a connected non-blocking socket and begins to read. Loop only.
    /// - Parameters:
    ///   - socket: Of an acceptor or of ``detach()``; not adopted before.
    ///   - tls: The connection's TLS; nil for none, or where it came with the socket.
    ///   - readsProxyHeader: The peer is a trusted proxy, and may begin with a ``ProxyHeader``.
    ///   - makeDelegate: Gets the channel, which may already be written to.
    /// - Returns: The channel, which the loop keeps until it is closed.
    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors; the socket is closed then.
    @discardableResult
    package static func adopt(
        _ socket: ConnectedSocket, on loop: EventLoop, tls: TLSConnection? = nil,
        readsProxyHeader: Bool = false, makeDelegate: (Channel) -> any ChannelDelegate
    ) throws(SocketError) -> Channel {
        assert(loop.isCurrent)
        let channel = Channel(connected: socket.takeDescriptor(), loop: loop)
        channel.limiter = socket.limiter
        channel.isReserved = socket.isReserved
        channel.grant = socket.grant
        channel.secure = socket.secure ?? tls.map { SecureStage($0) }
        channel.proxy = socket.proxy ?? (readsProxyHeader ? ProxyStage() : nil)
        // A few new channels begin in the main set. The others are bulk until their second read, so that a
        // thousand new connections do not delay older ones; so are those with TLS: a handshake takes long.
        channel.isNewInMainSet = channel.secure == nil && loop.poller.beginNewInMainSet()
        channel.isBulk = !channel.isNewInMainSet
        channel.readPace = ReadPace(isNew: channel.isBulk)
        do throws(SocketError) {
            try loop.poller.watch(channel, PANDO_READABLE)
        } catch {
            channel.closeAndCount()
            throw error
        }
        loop.metrics.adopted.add()
        if let secure = channel.secure { channel.begin(secure) }
        channel.delegate = makeDelegate(channel)
        return channel
    }

    /// What the TLS handshake has agreed on; nil without TLS, and before the handshake is done.
    package var tlsFacts: TLSFacts? { secure?.facts }

    /// The address of the client, by its proxy's header where that is trusted; nil once the connection is
    /// closed. One system call.
    package var peerAddress: SocketAddress? { proxy?.source ?? socketAddress }

    var socketAddress: SocketAddress? {
        var address = pando_address()
        return unsafe pando_peer_address(descriptor, &address) > 0
            ? SocketAddress(raw: address).withoutMapping : nil
    }

    /// Bytes of memory that unsent output takes for this channel alone, and what TLS holds of its input;
    /// ``SharedBytes`` are not counted. O(1).
    package var ownedOutputByteCount: Int {
        output.ownedByteCount + (secure?.heldByteCount ?? 0)
    }

    /// Whether bytes that are written will be sent: the channel is neither closed nor closing.
    package var isOpen: Bool { phase == .open }

    /// Whether the descriptor is closed. `channelDidClose` was called, or is called at the end of a tick.
    package var isClosed: Bool { phase == .closed }

    /// Bytes that the peer's system has acknowledged (TCP): those written, less those that wait here or in
    /// the kernel. Once the connection is closed: the count of that moment if ``remembersAcknowledgedBytes``,
    /// else all bytes. One system call.
    package var acknowledgedByteCount: Int {
        guard phase != .closed else { return ending?.acknowledgedByteCount ?? writtenByteCount }
        let accepted = writtenByteCount - output.unsentByteCount
        let unacknowledged = max(0, Int(pando_unacknowledged(descriptor)))
        return secure?.acknowledgedByteCount(accepted: accepted, unacknowledged: unacknowledged)
            ?? accepted - unacknowledged
    }

    // MARK: From the loop

    /// It has had an event, or never will.
    func endNew() {
        guard isNewInMainSet else { return }
        isNewInMainSet = false
        poller.endNewInMainSet()
    }

    override func ready(_ events: UInt32) {
        endNew()
        if events & PANDO_WRITABLE != 0 {
            output.isBlocked = false
            isBulk = readPace.noteWritable()
            flushLater()
        }
        if interest & PANDO_READABLE != 0 {
            if events & (PANDO_READABLE | PANDO_FAILED | PANDO_HUNG_UP) != 0 { read() }
        } else if events & (PANDO_FAILED | PANDO_HUNG_UP) != 0 {
            // epoll reports these two always: without an end of the channel, in every tick.
            let error = pando_socket_error(descriptor)
            fail(error == 0 ? PANDO_ECONNRESET : error)
        }
    }

    package override var isPrompt: Bool {
        !isBulk && flushes.milliseconds &- lastReadMilliseconds < Self.promptTime
    }

    /// Whether its peer sends little, and takes what it is sent.
    package var hasKeptUp: Bool { !isBulk && !output.isBlocked && !hasBulkOutput }

    override var isFlushDue: Bool { isInFlushList && phase != .closed }

    override var hasBulkOutput: Bool {
        output.unsentByteCount > lowWaterByteCount
    }

    override func flushAtEndOfTick() {
        isInFlushList = false
        guard phase != .closed else { return }
        flush()
        notifyIfDrained()
    }

    override func notifyClosed() {
        // The delegate commonly holds the channel: this ends the reference cycle.
        exchange(&currentDelegate, with: nil)?.channelDidClose(self, reason: ending?.reason ?? .requested)
    }

    override func loopDidStop() {
        finish(.loopStopped)
    }
}

/// Gets a channel's events, on its loop. The channel holds its delegate until `channelDidClose`.
package protocol ChannelDelegate: AnyObject {
    /// Bytes arrived: called once per read event, with what one `recv` gave (1 byte … 512 KiB). They may be
    /// changed in place, and are valid only during the call. What is written to *this* channel during the
    /// call is sent with one `send` after it.
    func received(_ bytes: inout MutableRawSpan, on channel: Channel)

    /// The peer sends no more (FIN, or close_notify of TLS); it may still read. Also called when the peer has
    /// sent a record that TLS refuses: then the channel is closing, and takes no more output. The default is
    /// `closeAfterFlush()`.
    func channelDidEnd(_ channel: Channel)

    /// A trusted proxy has said who its client is, or that it speaks for itself: ``Channel/peerAddress`` is
    /// final. Called once, before the first `received`, where the channel was adopted to read a header.
    func channelDidLearnPeer(_ channel: Channel)

    /// `outboundByteCount` was above `outboundLowWaterByteCount`, and no longer is.
    func channelDidDrain(_ channel: Channel)

    /// The last call, made exactly once, at the end of this tick or of a later one: never from inside a call
    /// to the channel.
    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason)
}

extension ChannelDelegate {
    package func channelDidEnd(_ channel: Channel) { channel.closeAfterFlush() }
    package func channelDidDrain(_ channel: Channel) {}
    package func channelDidLearnPeer(_ channel: Channel) {}
}
