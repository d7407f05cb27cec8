import PandoBytes
import PandoReactor
import PandoTime
import PandoTraffic
import PandoTree

/// A well-behaved client on a thread of its own, at a fixed rate: durable sets with their echo on a listen,
/// small gets, a small transaction, a REST read. Latency counts from the moment an operation was due,
/// whatever the server does.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and
/// after it was joined.
final class Bystander: @unchecked Sendable {
    /// The operations, in turn. An echo belongs to its set.
    private static let turns: [BystanderOperation] = [
        .set, .get, .set, .rest, .set, .get, .set, .transaction, .set, .get,
    ]
    /// Locations that are set in turn: the node that is listened to stays small.
    private static let locationCount = 1000
    /// The timer is not set closer than this.
    private static let shortestPause: Duration = .microseconds(50)
    private static let reconnectPause: Duration = .milliseconds(100)

    let loop: EventLoop
    private let plan: HostilePlan
    private let notices: Mailbox<HostileNotice>
    private let writer: RealtimeLink
    private let listener: RealtimeLink
    private let reader: RESTLink
    private var sendTimer: PreciseTimer?
    private var arrivals: Arrivals?
    private var start = 0
    private var end = 0
    private var isMeasuring = false
    private var phaseNumber = 0
    private var isReady = false
    private var measure = BystanderMeasure()

    /// Operations without a reply: by number.
    private var waiting: [Int: (operation: BystanderOperation, due: Int)] = [:]
    private var nextWait = 0
    private var nextTurn = 0
    /// The last value that was sent anywhere.
    private var value = 0
    /// By location: the newest value that was acknowledged.
    private var acknowledged: [Int: Int] = [:]
    /// By location: values whose echo is missing, oldest first, each with its wait.
    private var echoes: [Int: [(value: Int, wait: Int)]] = [:]
    /// Transactions count up at a location of this connection's own.
    private var generation = 0
    private var transactionValue: Int64 = 0
    private var acknowledgedTransactions: Int64 = 0

    init(_ plan: HostilePlan, notices: Mailbox<HostileNotice>) throws(SocketError) {
        self.plan = plan
        self.notices = notices
        loop = try EventLoop()
        writer = RealtimeLink(plan.site, on: loop)
        listener = RealtimeLink(plan.site, on: loop)
        reader = RESTLink(plan.site, on: loop)
        sendTimer = try PreciseTimer(on: loop) { [unowned self] in sendDue() }
        writer.onUp = { [unowned self] in readyIfUp() }
        writer.onEnd = { [unowned self] problem in
            generation += 1
            (transactionValue, acknowledgedTransactions) = (0, 0)
            lost(writer, "the bystander: \(problem)")
        }
        listener.onUp = { [unowned self] in
            listener.request("q", setPath) {
                $0.append(#","h":"""#)
            } then: { [unowned self] reply, _ in
                if case .ok? = reply { readyIfUp() }
            }
        }
        listener.onPush = { [unowned self] action, body, text in pushed(action, body, text) }
        listener.onEnd = { [unowned self] problem in
            let missing = echoes.values.flatMap { $0.map(\.wait) }
            echoes = [:]
            for wait in missing { ended(wait, answered: false) }
            lost(listener, "the bystander's listener: \(problem)")
        }
        reader.onCut = { [unowned self] problem in post(.cut("the bystander: \(problem)")) }
    }

    private var setPath: String { "\(plan.site.root)/bystander/set" }
    private var smallPath: String { "\(plan.site.root)/bystander/small" }

    private var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds) }

    private func post(_ notice: HostileNotice) { notices.post(notice) }

    func handle(_ command: BystanderCommand) {
        switch command {
        case .connect:
            writer.connect()
            listener.connect()
        case .begin(let start, let end): begin(start: start, end: end)
        case .stop: stop()
        case .giveUp: giveUp()
        case .check: check()
        }
    }

    private func readyIfUp() {
        guard !isReady, writer.isUp, listener.isUp else { return }
        isReady = true
        writer.request("p", smallPath) {
            $0.append(#","d":{"a":1,"b":"two","c":true}"#)
        } then: { [unowned self] reply, _ in
            guard case .ok? = reply else { return post(.broken("the bystander's first set was refused")) }
            post(.bystanderReady)
        }
    }

    private func lost(_ link: RealtimeLink, _ words: String) {
        guard isReady else { return post(.broken(words)) }
        post(.cut(words))
        loop.schedule(after: Self.reconnectPause) { link.connect() }
    }

    // MARK: A phase

    private func begin(start: Int, end: Int) {
        (measure, waiting, echoes) = (BystanderMeasure(), [:], [:])
        (self.start, self.end) = (start, end)
        isMeasuring = true
        phaseNumber += 1
        let number = phaseNumber
        arrivals = Arrivals(.even(perSecond: plan.rate), start: start, share: (0, 1), seed: 0)
        loop.schedule(at: MonotonicTime(nanoseconds: UInt64(end + plan.patience))) { [weak self] in
            guard let self, number == phaseNumber else { return }
            giveUp()
        }
        sendDue()
    }

    private func stop() {
        guard isMeasuring else { return }
        end = min(end, now)
        arrivals = nil
        finishIfDone()
    }

    private func sendDue() {
        guard isMeasuring else { return }
        while let due = arrivals?.take(dueAt: min(now, end - 1)) { send(due: due) }
        guard let next = arrivals?.next else { return }
        // Fires at the end too: then perhaps nothing is missing.
        let moment = MonotonicTime(nanoseconds: UInt64(min(next, end)))
        if now >= end { finishIfDone() } else { sendTimer?.set(at: max(moment, .now + Self.shortestPause)) }
    }

    private func send(due: Int) {
        measure.lag.record(UInt64(max(0, now - due)))
        let operation = Self.turns[nextTurn % Self.turns.count]
        nextTurn += 1
        let wait = self.wait(for: operation, due: due)
        switch operation {
        case .set, .echo: set(wait, due: due)
        case .get:
            writer.request("g", smallPath) {
                $0.append(#","q":{}"#)
            } then: { [unowned self] reply, _ in
                replied(wait, reply)
            }
        case .transaction: transact(wait)
        case .rest:
            reader.request("GET", smallPath) { [unowned self] statusCode, _ in
                if let statusCode, statusCode != 200 { refused(wait) }
                ended(wait, answered: statusCode != nil)
            }
        }
    }

    private func wait(for operation: BystanderOperation, due: Int) -> Int {
        nextWait += 1
        waiting[nextWait] = (operation, due)
        return nextWait
    }

    private func set(_ wait: Int, due: Int) {
        value += 1
        let (value, location) = (value, value % Self.locationCount)
        echoes[location, default: []].append((value, self.wait(for: .echo, due: due)))
        writer.request("p", "\(setPath)/\(location)") { output in
            output.append(#","d":"#)
            output.append(decimal: Int64(value))
        } then: { [unowned self] reply, _ in
            if case .ok? = reply { acknowledged[location] = value }
            replied(wait, reply)
        }
    }

    private func transact(_ wait: Int) {
        let (old, own) = (transactionValue, generation)
        transactionValue += 1
        writer.request("p", transactionPath) { output in
            output.append(#","d":"#)
            output.append(decimal: old + 1)
            output.append(#","h":""#)
            output.append(utf8: old == 0 ? "" : Node.integer(old).hash)
            output.append(#"""#)
        } then: { [unowned self] reply, _ in
            // After a lost connection it is unknown which of the earlier ones were done.
            guard own == generation else { return ended(wait, answered: reply != nil) }
            if case .ok? = reply { acknowledgedTransactions = old + 1 }
            replied(wait, reply)
        }
    }

    private var transactionPath: String { "\(plan.site.root)/bystander/count/\(generation)" }

    /// What was set comes to its listener: a location, or all of them.
    private func pushed(_ action: String, _ body: Range<Int>, _ text: RawSpan) {
        if action == "m", let (_, members) = try? Envelope.members(text, body) {
            for (location, value) in members { echoed(location, value) }
        } else if let (path, value) = try? Envelope.change(text, body) {
            guard path.hasSuffix("/set") else { return echoed(path, value) }
            for entry in value.children.entries { echoed(entry.key.description, entry.node) }
        }
    }

    private func echoed(_ path: String, _ node: Node) {
        guard let location = Int(path.split(separator: "/").last ?? ""), case .integer(let value) = node,
            let missing = echoes[location]
        else { return }
        // A newer value stands for the older ones.
        let waits = missing.prefix { $0.value <= Int(value) }.map(\.wait)
        echoes[location] = missing.count == waits.count ? nil : Array(missing.dropFirst(waits.count))
        for wait in waits { ended(wait, answered: true) }
    }

    private func replied(_ wait: Int, _ reply: Reply?) {
        switch reply {
        case .ok?, nil: break
        case .stale?, .refused?: refused(wait)
        }
        ended(wait, answered: reply != nil)
    }

    private func refused(_ wait: Int) {
        if waiting[wait] != nil { measure.refused += 1 }
    }

    /// Ends a wait. Responses to operations of an earlier phase are not counted.
    private func ended(_ wait: Int, answered: Bool) {
        guard let (operation, due) = waiting.removeValue(forKey: wait) else { return }
        record(operation, due: due)
        if !answered { measure.unanswered += 1 }
        finishIfDone()
    }

    private func record(_ operation: BystanderOperation, due: Int) {
        let now = now
        let wait = max(0, now - due)
        measure.latencies[operation.rawValue].record(UInt64(wait))
        measure.slowest.record(.init(operation: operation, endedNanoseconds: now - start, nanoseconds: wait))
    }

    private func finishIfDone() {
        // What is due and not sent yet is sent by the timer, which may be late.
        guard isMeasuring, waiting.isEmpty, now >= end, arrivals.map({ $0.next >= end }) ?? true else {
            return
        }
        finish()
    }

    private func giveUp() {
        guard isMeasuring else { return }
        isMeasuring = false
        for (operation, due) in waiting.values {
            record(operation, due: due)
            measure.unanswered += 1
        }
        (waiting, echoes) = ([:], [:])
        finish()
    }

    private func finish() {
        isMeasuring = false
        arrivals = nil
        measure.isConnected = writer.isUp && listener.isUp
        post(.measured(measure))
    }

    // MARK: The end

    /// Reads all that was acknowledged. (What was overwritten is not there to be read: a location shows its
    /// last.)
    private func check() {
        let (expected, transactions) = (acknowledged, acknowledgedTransactions)
        writer.request("g", setPath) {
            $0.append(#","q":{}"#)
        } then: { [unowned self] reply, text in
            guard case .ok? = reply, case .reply(_, nil, let data)? = try? Envelope.read(text),
                let found = try? Envelope.node(text, data)
            else { return post(.broken("the bystander's writes could not be read back")) }
            let lost = expected.filter { location, value in
                guard case .integer(let there) = found[Key(unchecked: Text(String(location)))] else {
                    return true
                }
                return Int(there) < value
            }
            checkTransactions(transactions, count: expected.count, lost: lost.count)
        }
    }

    private func checkTransactions(_ expected: Int64, count: Int, lost: Int) {
        writer.request("g", transactionPath) {
            $0.append(#","q":{}"#)
        } then: { [unowned self] reply, text in
            guard case .ok? = reply, case .reply(_, nil, let data)? = try? Envelope.read(text),
                let found = try? Envelope.node(text, data)
            else { return post(.broken("the bystander's transactions could not be read back")) }
            var there: Int64 = 0
            if case .integer(let number) = found { there = number }
            post(.checked(count: count + 1, lost: lost + (there < expected ? 1 : 0)))
        }
    }
}
