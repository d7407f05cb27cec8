import PandoBytes
import PandoDatabase
import PandoREST
import PandoTime
import PandoTree

/// What an event stream sends to a client that reads at its own pace (rest §8): events that wait, and
/// the one that is being printed.
///
/// What waits is bounded: a client that falls behind further is disconnected, and begins anew when it comes
/// back.
/// A listener to operations (rest §10) misses some instead, and is sent how many.
package struct EventStream {
    /// Silence after which a stream says that it lives (rest §8.1).
    package static let keepAliveInterval: Duration = .seconds(30)
    /// Events that may wait for a client to read.
    private static let waitingEventLimit = 10_000
    /// Capacity for events that is kept when none wait.
    private static let keptCapacity = 64

    private let form: JSONForm
    private let waitingByteLimit: Int
    /// Of the bytes of an update, a sixteenth counts in ``heldByteCount``: other streams usually hold it,
    /// too.
    private static let sharedDivisor = 16

    private enum Content {
        case event(StreamEvent)
        /// Events that all streams of a location share.
        case update(StreamUpdate)
        /// The first of ``windows`` that is not being printed.
        case window
    }

    /// An event or an update that waits. What came while nothing waited counts as one event and no bytes: a
    /// client that has been sent everything is not disconnected for one large write.
    private struct Entry {
        var content: Content
        var eventCount = 1
        var byteCount = 0
        /// Of ``byteCount``, the part of this stream.
        var heldByteCount = 0
    }

    /// ``sentCount`` places of entries that were taken, then those that wait. The entry that is being printed
    /// is in ``printer`` or ``updatePrinter``.
    private var entries: [Entry] = []
    /// Places at the front whose entries were taken. They are removed many at a time (``makeSpace()``).
    private var sentCount = 0
    private var printer: ValuePrinter?
    /// Prints an update.
    private var updatePrinter: StreamUpdatePrinter?
    /// Large query windows among the entries, in their order; the first one is in ``printer`` where
    /// ``isPrintingWindow``. They are here because what they count for changes while they wait.
    private var windows: [StreamWindow.Share] = []
    private var isPrintingWindow = false
    /// At least the bytes of the entries that wait behind others.
    package private(set) var waitingByteCount = 0
    private var waitingHeldByteCount = 0
    /// Events of the entries that wait.
    private var waitingEventCount = 0
    /// Operations that were not sent.
    private var missedCount = 0
    /// The last event is among those that came.
    package private(set) var isEnding = false
    /// The first event has come that is no keep-alive.
    package private(set) var hasBegun = false
    /// Nothing is sent until it is known whether the first event is too much.
    package private(set) var isMeasuring = false
    /// When the client was last sent anything.
    package var lastSent: MonotonicTime

    /// - Parameters:
    ///   - waitingByteLimit: Bytes of events that may wait.
    ///   - now: Silence is counted from here.
    package init(_ form: JSONForm, waitingByteLimit: Int, now: MonotonicTime) {
        self.form = form
        self.waitingByteLimit = waitingByteLimit
        lastSent = now
    }

    /// Events, and updates as a whole, that are not printed yet.
    package var waitingCount: Int { entries.count - sentCount }

    /// Events that are not printed yet. An update that came while nothing waited counts as one until it is
    /// being printed.
    package var unsentEventCount: Int { waitingEventCount + (updatePrinter?.remainingCount ?? 0) }

    /// An event is on its way to the socket.
    package var isPrinting: Bool { printer != nil || updatePrinter != nil }

    /// Bytes of memory that the stream holds: of what other streams hold, too, only a part.
    package var heldByteCount: Int {
        var byteCount = waitingHeldByteCount + (printer?.heldByteCount ?? 0)
        for window in windows { byteCount += window.byteCount }
        if let updatePrinter {
            byteCount += updatePrinter.heldByteCount + updatePrinter.update.weight / Self.sharedDivisor
        }
        return byteCount
    }

    /// Everything that came was sent.
    private var isEmpty: Bool { !isMeasuring && waitingCount == 0 && !isPrinting }

    /// The first event came, and everything that did was sent.
    package var isCaughtUp: Bool { hasBegun && isEmpty }

    /// Everything was sent, and nothing more will come.
    package var isFinished: Bool { isEnding && isEmpty }

    /// Adds events.
    /// - Returns: false when more waits than may: the client has to be disconnected.
    package mutating func append(_ new: [StreamEvent]) -> Bool {
        if case .log? = new.first, waitingCount >= Self.waitingEventLimit / 2 {
            missedCount += new.count
            return true
        }
        let isBehind = self.isBehind
        makeSpace()
        appendMissed()
        // Nothing is sent behind the last event.
        for event in new where !isEnding {
            switch event {
            case .cancel, .authRevoked: isEnding = true
            case .put, .patch, .log: hasBegun = true
            case .keepAlive: break
            }
            let byteCount = isBehind ? event.weight : 0
            append(Entry(content: .event(event), byteCount: byteCount, heldByteCount: byteCount))
        }
        return hasSpace
    }

    /// Adds the events of a write of many locations. Nothing is made of them before the client takes them.
    /// - Returns: As ``append(_:)``. Where nothing waits, an update may have any number of events.
    package mutating func append(_ update: StreamUpdate) -> Bool {
        guard !isEnding else { return true }
        let byteCount = isBehind ? update.weight : 0
        let eventCount = isBehind ? update.eventCount : 1
        makeSpace()
        appendMissed()
        hasBegun = true
        append(
            Entry(
                content: .update(update), eventCount: eventCount, byteCount: byteCount,
                heldByteCount: byteCount / Self.sharedDivisor))
        return hasSpace
    }

    /// Adds a large query window, which is one event. It is sent once its node is made.
    /// - Returns: As ``append(_:)``.
    package mutating func append(_ window: StreamWindow) -> Bool {
        guard !isEnding else { return true }
        let byteCount = isBehind ? min(window.byteCount, StreamEvent.weightLimit) : 0
        makeSpace()
        appendMissed()
        hasBegun = true
        windows.append(StreamWindow.Share(window))
        append(Entry(content: .window, byteCount: byteCount))
        return hasSpace
    }

    private var isBehind: Bool { isPrinting || waitingCount > 0 }

    /// Whether what waits is within its bounds.
    private var hasSpace: Bool {
        waitingByteCount <= waitingByteLimit && waitingEventCount <= Self.waitingEventLimit
    }

    /// Removes the places of taken entries once they are more than half: amortised O(1) for each entry.
    private mutating func makeSpace() {
        guard sentCount > Self.keptCapacity, sentCount * 2 > entries.count else { return }
        entries.removeFirst(sentCount)
        sentCount = 0
    }

    private mutating func append(_ entry: Entry) {
        waitingByteCount += entry.byteCount
        waitingHeldByteCount += entry.heldByteCount
        waitingEventCount += entry.eventCount
        entries.append(entry)
    }

    private mutating func appendMissed() {
        guard missedCount > 0 else { return }
        let json = Array("{\"name\":\"missed\",\"count\":\(missedCount)}".utf8)
        append(Entry(content: .event(.log(json))))
        missedCount = 0
    }

    /// Nothing is sent before ``measured(isTooHeavy:)``.
    package mutating func awaitMeasure() {
        isMeasuring = true
    }

    /// - Parameter isTooHeavy: The first event is over ``RESTLimits/streamByteCount``: the stream is
    ///   cancelled (rest §8.2).
    package mutating func measured(isTooHeavy: Bool) {
        // A later one may have any size.
        guard exchange(&isMeasuring, with: false), isTooHeavy else { return }
        sentCount = 0
        (waitingByteCount, waitingHeldByteCount, waitingEventCount) = (0, 0, 0)
        (entries, windows) = ([], [])
        append(Entry(content: .event(.cancel(Text(RESTError.readTooLarge.text)))))
        isEnding = true
    }

    /// The next bytes to be sent; nil when there is nothing to send.
    package mutating func next() -> [UInt8]? {
        guard !isMeasuring else { return nil }
        while true {
            if let piece = printer?.next() { return piece }
            printer = nil
            if exchange(&isPrintingWindow, with: false) { windows.removeFirst() }
            if let piece = updatePrinter?.next() { return piece }
            updatePrinter = nil
            if waitingCount == 0 {
                entries.removeAll(keepingCapacity: sentCount <= Self.keptCapacity)
                sentCount = 0
                appendMissed()
            }
            guard !entries.isEmpty else {
                assert(waitingByteCount == 0, "bytes are counted of events that were taken")
                return nil
            }
            if case .window = entries[sentCount].content {
                // A worker is still making it.
                guard let node = windows[0].window.node else { return nil }
                printer = StreamEvent.put(.root, node).printer(form)
                isPrintingWindow = true
            }
            let entry = exchange(&entries[sentCount], with: Entry(content: .event(.keepAlive)))
            switch entry.content {
            case .window: break
            case .event(let event): printer = event.printer(form)
            case .update(let update): updatePrinter = StreamUpdatePrinter(update, form)
            }
            waitingByteCount -= entry.byteCount
            waitingHeldByteCount -= entry.heldByteCount
            waitingEventCount -= entry.eventCount
            sentCount += 1
        }
    }
}

extension StreamEvent {
    /// Bytes that ``weight`` looks at.
    fileprivate static let weightLimit = 1 << 20

    /// A lower bound of the bytes that the event holds: looked at only so far.
    fileprivate var weight: Int {
        switch self {
        case .put(_, let node): 64 + node.weight(upTo: Self.weightLimit)
        case .patch(_, let entries):
            entries.reduce(64) { $0 + 32 + $1.node.weight(upTo: Self.weightLimit / entries.count) }
        case .log(let json): 64 + json.count
        case .keepAlive, .cancel, .authRevoked: 64
        }
    }
}
