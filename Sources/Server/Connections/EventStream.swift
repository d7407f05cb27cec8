import PandoBytes
import PandoDatabase
import PandoREST
import PandoReactor
import PandoTree

/// What an event stream has to tell a client that reads at its own pace (rest §8): events that wait, and
/// the one that is being printed.
///
/// What waits is bounded: a client that falls behind further is cut off, and begins anew when it comes back.
/// Who watches operations (rest §10) misses some instead, and is told how many.
struct EventStream {
    /// Silence after which a stream says that it lives (rest §8.1).
    static let keepAliveInterval: Duration = .seconds(30)
    /// Events that may wait for a client to read.
    private static let waitingCountLimit = 10_000
    /// Room for events that is kept when none wait.
    private static let keptCapacity = 64

    private let form: JSONForm
    private let waitingByteLimit: Int
    /// Events that are not printed yet, and the one that is being sent.
    private var events: [StreamEvent] = []
    /// Events at the front that were told: those behind them do not move for each.
    private var toldCount = 0
    private var printer: ValuePrinter?
    /// About what the events hold that came while others waited; a lower bound.
    private(set) var waitingByteCount = 0
    /// Operations that were not told.
    private var missedCount = 0
    /// The last event is among those that came.
    private(set) var isEnding = false
    /// The first event has come.
    private(set) var hasBegun = false
    /// Nothing is sent until it is known whether the first event is too much.
    private var isHeld = false
    /// When the client was last sent anything.
    var lastSent: MonotonicTime

    /// - Parameters:
    ///   - waitingByteLimit: Bytes of events that may wait.
    ///   - now: Silence is counted from here.
    init(_ form: JSONForm, waitingByteLimit: Int, now: MonotonicTime) {
        self.form = form
        self.waitingByteLimit = waitingByteLimit
        lastSent = now
    }

    /// Events that are not printed yet.
    var waitingCount: Int { events.count - toldCount }

    /// An event is on its way to the socket.
    var isPrinting: Bool { printer != nil }

    /// Everything was sent, and nothing more will come.
    var isFinished: Bool { isEnding && !isHeld && toldCount == events.count && printer == nil }

    /// Adds what is to be told.
    /// - Returns: false when more waits than may: the client has to be cut off.
    mutating func append(_ new: [StreamEvent]) -> Bool {
        // Nobody is told anything behind the last event.
        guard !isEnding else { return true }
        if case .log? = new.first, events.count - toldCount >= Self.waitingCountLimit / 2 {
            missedCount += new.count
            return true
        }
        let isBehind = printer != nil || toldCount < events.count
        // Told events go when they are half of all: each is moved over once.
        if toldCount > Self.keptCapacity, toldCount * 2 > events.count {
            events.removeFirst(toldCount)
            toldCount = 0
        }
        tellMissed()
        hasBegun = hasBegun || !new.isEmpty
        events += new
        if isBehind { waitingByteCount += new.reduce(0) { $0 + $1.weight } }
        for event in new {
            switch event {
            case .cancel, .authRevoked: isEnding = true
            case .put, .patch, .keepAlive, .log: break
            }
        }
        return waitingByteCount <= waitingByteLimit && events.count - toldCount <= Self.waitingCountLimit
    }

    private mutating func tellMissed() {
        guard missedCount > 0 else { return }
        events.append(.log(Array("{\"name\":\"missed\",\"count\":\(missedCount)}".utf8)))
        missedCount = 0
    }

    /// Nothing is sent before ``finishSurvey(isTooHeavy:)``.
    mutating func hold() {
        isHeld = true
    }

    /// - Parameter isTooHeavy: The first event is over ``RESTLimits/streamByteCount``: the stream is
    ///   cancelled (rest §8.2).
    mutating func finishSurvey(isTooHeavy: Bool) {
        isHeld = false
        guard isTooHeavy else { return }
        toldCount = 0
        events = [.cancel(Text(RESTError.readTooLarge.text))]
        isEnding = true
    }

    /// The next bytes to be sent; nil when there is nothing to tell.
    mutating func next() -> [UInt8]? {
        guard !isHeld else { return nil }
        while true {
            if let piece = printer?.next() { return piece }
            printer = nil
            if toldCount == events.count {
                events.removeAll(keepingCapacity: toldCount <= Self.keptCapacity)
                toldCount = 0
                tellMissed()
            }
            guard !events.isEmpty else {
                waitingByteCount = 0
                return nil
            }
            printer = events[toldCount].printer(form)
            events[toldCount] = .keepAlive
            toldCount += 1
        }
    }
}

extension StreamEvent {
    /// A lower bound of the bytes that the event holds: looked at only so far.
    fileprivate var weight: Int {
        let limit = 1 << 20
        return switch self {
        case .put(_, let node): 64 + node.weight(upTo: limit)
        case .patch(_, let entries):
            entries.reduce(64) { $0 + 32 + $1.node.weight(upTo: limit / entries.count) }
        case .log(let json): 64 + json.count
        case .keepAlive, .cancel, .authRevoked: 64
        }
    }
}
