import PandoBytes
import PandoRandom
import PandoReactor
import PandoTraffic
import PandoTree

/// Clients that are slow or request much at once, but violate nothing: none may be disconnected. They begin
/// after the quiet phase and go on until the end of the run, on a thread of their own.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and
/// after it was joined.
final class HonestClients: @unchecked Sendable {
    /// The size of one read: small, so that a low rate is even.
    private static let receiveBufferByteCount = 8 << 10

    let loop: EventLoop
    private let plan: HostilePlan
    private let notices: Mailbox<HostileNotice>
    private var clients: [HonestClient] = []

    init(_ plan: HostilePlan, notices: Mailbox<HostileNotice>) throws(SocketError) {
        self.plan = plan
        self.notices = notices
        var configuration = EventLoop.Configuration()
        configuration.receiveBufferByteCount = Self.receiveBufferByteCount
        loop = try EventLoop(configuration)
    }

    /// Any thread: connects all of them.
    func start() {
        loop.submit { [self] in
            let report: (String) -> Void = { [notices] words in notices.post(.cut(words)) }
            if plan.honest.contains(.slowDownload) { clients.append(SlowDownload(plan, on: loop, report)) }
            if plan.honest.contains(.slowPush) { clients.append(SlowPush(plan, on: loop, report)) }
            if plan.honest.contains(.burst) { clients.append(BurstReader(plan, on: loop, report)) }
            if plan.honest.contains(.slowReaders), plan.slowReaders > 0 {
                let writer = BoardWriter(plan, on: loop, report)
                clients.append(writer)
                for number in 1...plan.slowReaders {
                    clients.append(SlowReader(number, plan, on: loop, report))
                }
            }
            for client in clients { client.start() }
        }
    }

    /// Any thread: clients that act once do it now.
    func act() {
        loop.submit { [self] in
            for client in clients { client.act() }
        }
    }

    /// Any thread: ends the clients. Those that check the final state read it first. `.honestFinished`
    /// follows.
    func finish() {
        loop.submit { [self] in
            // Writers first: then the state that the others must have is final.
            finishWriters(clients.filter(\.isWriter)[...])
        }
    }

    private func finishWriters(_ writers: ArraySlice<HonestClient>) {
        guard let writer = writers.first else { return finishReaders() }
        writer.finish { [weak self] in self?.finishWriters(writers.dropFirst()) }
    }

    private func finishReaders() {
        let readers = clients.filter { !$0.isWriter }
        var left = readers.count
        let end: () -> Void = { [weak self] in
            left -= 1
            if left <= 0 { self?.finished() }
        }
        guard !readers.isEmpty else { return finished() }
        for reader in readers { reader.finish(end) }
    }

    private func finished() {
        notices.post(
            .honestFinished(work: clients.compactMap(\.work), problems: clients.compactMap(\.problem)))
    }

    /// After the loop is over.
    func end() { clients = [] }
}

/// An honest client. It connects again when its connection is lost. Confined to its loop.
class HonestClient {
    private static let reconnectPause: Duration = .seconds(1)

    let plan: HostilePlan
    let loop: EventLoop
    let link: RealtimeLink
    private let reportCut: (String) -> Void
    private(set) var isFinishing = false
    /// What was wrong at the end.
    var problem: String?

    /// - Parameter pace: Bytes that are read a second; nil for no limit.
    init(_ plan: HostilePlan, on loop: EventLoop, pace: Int?, _ reportCut: @escaping (String) -> Void) {
        self.plan = plan
        self.loop = loop
        self.reportCut = reportCut
        var options = SocketOptions()
        // A slow reader has a small receive buffer, as a phone has.
        if pace != nil { options.receiveBufferByteCount = 64 << 10 }
        link = RealtimeLink(plan.site, on: loop, options: options, pace: pace)
        link.onUp = { [unowned self] in up() }
        link.onEnd = { [unowned self] problem in
            guard !isFinishing else { return }
            reportCut("\(name): \(problem)")
            loop.schedule(after: Self.reconnectPause) { [weak self] in
                if let self, !isFinishing { link.connect() }
            }
        }
    }

    var name: String { "" }
    /// What it has done, in words.
    var work: String? { nil }
    var isWriter: Bool { false }

    func start() { link.connect() }
    func up() {}
    func act() {}

    /// - Parameter done: Called once.
    func finish(_ done: @escaping () -> Void) {
        leave()
        done()
    }

    final func leave() {
        isFinishing = true
        link.close()
    }

    final func beginFinishing() { isFinishing = true }
}

/// Downloads 12 MB again and again, with a rate that changes each second.
final class SlowDownload: HonestClient {
    /// Bytes a second.
    private static let speeds = 60_000...250_000
    private static let speedPause: Duration = .seconds(1)

    private var random = SeededGenerator(seed: 1)
    private var doneCount = 0

    init(_ plan: HostilePlan, on loop: EventLoop, _ reportCut: @escaping (String) -> Void) {
        super.init(plan, on: loop, pace: Self.speeds.lowerBound, reportCut)
    }

    override var name: String { HonestKind.slowDownload.rawValue }
    override var work: String? {
        "\(name): \(link.receivedByteCount / 1000) KB read, \(doneCount) times all of 12 MB"
    }

    override func start() {
        super.start()
        changeSpeed()
    }

    override func up() {
        link.request("g", PreparedData.large12MB.path(at: plan.site)) {
            $0.append(#","q":{}"#)
        } then: { [weak self] reply, _ in
            guard let self, case .ok? = reply else { return }
            doneCount += 1
            up()
        }
    }

    private func changeSpeed() {
        loop.schedule(after: Self.speedPause) { [weak self] in
            guard let self, !isFinishing else { return }
            link.pace = Int.random(in: Self.speeds, using: &random)
            changeSpeed()
        }
    }
}

/// Listens to 5 MB and reads the push steadily, again and again.
final class SlowPush: HonestClient {
    private static let bytesPerSecond = 30_000

    private var doneCount = 0

    init(_ plan: HostilePlan, on loop: EventLoop, _ reportCut: @escaping (String) -> Void) {
        super.init(plan, on: loop, pace: Self.bytesPerSecond, reportCut)
    }

    override var name: String { HonestKind.slowPush.rawValue }
    override var work: String? {
        "\(name): \(link.receivedByteCount / 1000) KB read, \(doneCount) times all of 5 MB"
    }

    private var path: String { PreparedData.large5MB.path(at: plan.site) }

    override func up() {
        link.request("q", path) {
            $0.append(#","h":"""#)
        } then: { [weak self] reply, _ in
            guard let self, case .ok? = reply else { return }
            doneCount += 1
            link.request("n", path) { [weak self] reply, _ in
                if case .ok? = reply { self?.up() }
            }
        }
    }
}

/// Requests 1 MB 200 times in one burst, when ``act()`` is called, and reads as fast as it can.
final class BurstReader: HonestClient {
    private static let requestCount = 200

    private var askedCount = 0
    private var answeredCount = 0

    init(_ plan: HostilePlan, on loop: EventLoop, _ reportCut: @escaping (String) -> Void) {
        super.init(plan, on: loop, pace: nil, reportCut)
    }

    override var name: String { HonestKind.burst.rawValue }
    override var work: String? { "\(name): \(answeredCount) of \(askedCount) gets of 1 MB answered" }

    override func act() {
        for _ in 0..<Self.requestCount {
            askedCount += 1
            link.request("g", "\(PreparedData.large5MB.path(at: plan.site))/c0") {
                $0.append(#","q":{}"#)
            } then: { [weak self] reply, _ in
                if case .ok? = reply { self?.answeredCount += 1 }
            }
        }
    }
}

/// Writes what the slow readers listen to: values of 4 KB at a few paths, at a fixed rate.
final class BoardWriter: HonestClient {
    static let locationCount = 16
    private static let valueByteCount = 4 << 10
    /// The most writes without a response: a slow server gets no more of them.
    private static let unansweredLimit = 64
    private static let tick: Duration = .milliseconds(16)

    private var writtenCount = 0
    private var answeredCount = 0
    private var owed = 0.0
    private var done: (() -> Void)?

    init(_ plan: HostilePlan, on loop: EventLoop, _ reportCut: @escaping (String) -> Void) {
        super.init(plan, on: loop, pace: nil, reportCut)
    }

    static func path(at site: HostileSite) -> String { "\(site.root)/board" }

    override var name: String { "the slow readers' writer" }
    override var work: String? { "\(name): \(answeredCount) values of 4 KB" }
    override var isWriter: Bool { true }

    override func start() {
        super.start()
        write()
    }

    private func write() {
        loop.schedule(after: Self.tick) { [weak self] in
            guard let self, !isFinishing else { return }
            owed = min(owed + plan.writerRate * (Self.tick / .seconds(1)), plan.writerRate)
            while owed >= 1, link.isUp, writtenCount - answeredCount < Self.unansweredLimit {
                owed -= 1
                writeOne()
            }
            write()
        }
    }

    private func writeOne() {
        writtenCount += 1
        let number = writtenCount
        link.request("p", "\(Self.path(at: plan.site))/c\(number % Self.locationCount)") { output in
            output.append(#","d":"#)
            output.append(UInt8(ascii: #"""#))
            output.append(decimal: Int64(number))
            output.append(contentsOf: repeatElement(UInt8(ascii: "x"), count: Self.valueByteCount))
            output.append(UInt8(ascii: #"""#))
        } then: { [weak self] _, _ in
            guard let self else { return }
            answeredCount += 1
            finishIfDone()
        }
    }

    override func finish(_ done: @escaping () -> Void) {
        self.done = done
        beginFinishing()
        finishIfDone()
    }

    private func finishIfDone() {
        guard isFinishing, answeredCount == writtenCount, let done else { return }
        self.done = nil
        leave()
        done()
    }
}

/// Listens to those values and reads slowly. At the end it reads what is left, and must have the same state
/// as a get returns.
final class SlowReader: HonestClient {
    private let number: Int
    private var state = Node.empty
    private var pushCount = 0

    init(_ number: Int, _ plan: HostilePlan, on loop: EventLoop, _ reportCut: @escaping (String) -> Void) {
        self.number = number
        super.init(plan, on: loop, pace: plan.slowReaderPace, reportCut)
        link.onPush = { [unowned self] action, body, text in pushed(action, body, text) }
    }

    override var name: String { "slow reader \(number)" }
    override var work: String? {
        guard number == 1 else { return nil }
        return "\(name) of \(plan.slowReaders): \(link.receivedByteCount / 1000) KB read, \(pushCount) pushes"
    }

    private var path: String { BoardWriter.path(at: plan.site) }

    override func up() {
        state = .empty
        link.request("q", path) {
            $0.append(#","h":"""#)
        } then: { _, _ in
        }
    }

    private func pushed(_ action: String, _ body: Range<Int>, _ text: RawSpan) {
        pushCount += 1
        do {
            if action == "m" {
                let (path, members) = try Envelope.members(text, body)
                for (relative, value) in members { try apply(value, at: "\(path)/\(relative)") }
            } else {
                let (path, value) = try Envelope.change(text, body)
                try apply(value, at: path)
            }
        } catch {
            problem = "\(name): a push that is none: \(error)"
        }
    }

    private func apply(_ value: Node, at path: String) throws {
        let (whole, root) = (try Path(wire: Text(path)), try Path(wire: Text(self.path)))
        guard root.contains(whole) else { throw MalformedJSON.unexpected(byteOffset: 0) }
        _ = state.set(value, at: root.relative(whole))
    }

    override func finish(_ done: @escaping () -> Void) {
        guard link.isUp else {
            problem = "\(name): has no connection at the end"
            leave()
            return done()
        }
        link.pace = nil
        // Its response arrives after everything that was pushed before.
        link.request("g", path) {
            $0.append(#","q":{}"#)
        } then: { [weak self] reply, text in
            guard let self else { return }
            if case .ok? = reply, case .reply(_, nil, let data)? = try? Envelope.read(text),
                let final = try? Envelope.node(text, data)
            {
                if final != state { problem = "\(name): its state is not what a get gives" }
            } else {
                problem = "\(name): its last read was not answered"
            }
            leave()
            done()
        }
    }
}
