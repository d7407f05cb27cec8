import COperatingSystem
import PandoBytes
import PandoTime
import Synchronization
import Testing

@testable import PandoReactor

/// A clock that goes on only when a test says so.
final class ScriptedClock: Sendable {
    private let nanoseconds = Atomic<UInt64>(MonotonicTime.now.nanoseconds)

    var now: MonotonicTime { MonotonicTime(nanoseconds: nanoseconds.load(ordering: .relaxed)) }

    func advance(_ duration: Duration) { nanoseconds.add(duration.nanosecondCount, ordering: .relaxed) }

    var configuration: EventLoop.Configuration {
        var configuration = EventLoop.Configuration()
        configuration.clock = { [self] in now }
        configuration.tickShare = .milliseconds(2)
        configuration.newInMainSetLimit = 0
        return configuration
    }
}

/// What a loop did, and in which tick.
private struct Done: Equatable, Sendable {
    var tick: UInt64
    var id: Int
}

/// How much a tick does where everything takes long. Counted, with a clock that only the work moves.
@Suite struct TickTests {
    /// Blocks a loop, so that what comes meanwhile is one batch.
    /// - Parameter first: Runs on the loop before it is blocked, in the same tick.
    private func block(
        _ loop: EventLoop, after first: @escaping @Sendable () -> Void = {}, while body: () throws -> Void
    ) throws {
        let isStanding = try WakeupEvent()
        let mayGoOn = try WakeupEvent()
        loop.submit {
            first()
            isStanding.signal()
            mayGoOn.wait()
        }
        isStanding.wait()
        try body()
        mayGoOn.signal()
    }

    /// - Returns: The most of one tick.
    private func most(_ done: [Done]) -> Int {
        Dictionary(grouping: done, by: \.tick).values.map(\.count).max() ?? 0
    }

    /// Each read takes a millisecond, and each peer has more to send. A tick handles as many reads as are
    /// made between two looks at the clock, and none is read a second time before all others.
    @Test func eventsOfManyChannelsAreSharedOutOverTicks() throws {
        let clock = ScriptedClock()
        let log = Log<Event>()
        let done = Log<Done>()
        let peers = Confined<[Peer]>([])
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, _ in
                let id = delegate.id
                var count = 0
                delegate.onReceived = { _, channel in
                    done.add(Done(tick: channel.loop.tickCount, id: id))
                    // After two reads a channel is not bulk any more.
                    guard count > 1 else { return count += 1 }
                    clock.advance(.milliseconds(1))
                    count += 1
                    if count < 6 { peers.value[id].send([1]) }
                }
            })
        defer { host.stop() }
        // One after the other, so that peer and channel have the same number.
        for id in 0..<40 {
            let peer = try Peer(host.address)
            log.wait("adoption") { $0.contains(.opened(id)) }
            for number in 1...2 {
                peer.send([1])
                done.wait("read \(number)") { $0.count == 2 * id + number }
            }
            peers.value.append(peer)
        }
        try block(host.loop) {
            for peer in peers.value { peer.send([2]) }
        }
        let all = done.wait("all reads") { $0.count == 40 * 6 }.dropFirst(80)
        #expect(most(Array(all)) == 8)
        for round in 0..<4 {
            let ids = all.dropFirst(round * 40).prefix(40).map(\.id)
            #expect(Set(ids).count == 40, "everyone once in round \(round)")
        }
        host.on { _ in peers.value = [] }
    }

    /// What fills its reads is looked at one by one, behind all others, and each once before the first has
    /// its second.
    @Test func bulkChannelsShareWhatIsLeftOfATick() throws {
        let clock = ScriptedClock()
        let log = Log<Event>()
        let done = Log<Done>()
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, channel in
                let id = delegate.id
                channel.readByteLimit = 1
                delegate.onReceived = { _, channel in
                    clock.advance(.milliseconds(1))
                    done.add(Done(tick: channel.loop.tickCount, id: id))
                }
            })
        defer { host.stop() }
        var peers: [Peer] = []
        for id in 0..<20 {
            peers.append(try Peer(host.address))
            log.wait("adoption") { $0.contains(.opened(id)) }
        }
        try block(host.loop) {
            for peer in peers { peer.send([1, 2, 3]) }
        }
        let all = done.wait("all reads") { $0.count == 20 * 3 }
        #expect(most(all) == 3, "three times a millisecond is more than a tick's share")
        for round in 0..<3 { #expect(Set(all.dropFirst(round * 20).prefix(20).map(\.id)).count == 20) }
    }

    /// More channels are busy than the kernel reports at a time, and their events take long: one that sends
    /// little is read in the first tick all the same, or behind the few that were new.
    @Test(arguments: [(newInMainSetLimit: 0, ticksLater: 0), (3, 2)])
    func channelThatSendsLittleIsReadBeforeBusyOnes(newInMainSetLimit: Int, ticksLater: UInt64) throws {
        let busyCount = Int(PANDO_EVENT_LIMIT) + 100
        let clock = ScriptedClock()
        var configuration = clock.configuration
        configuration.newInMainSetLimit = newInMainSetLimit
        let log = Log<Event>()
        let done = Log<Done>()
        let host = try Host(
            configuration,
            adopt: scripting(log) { delegate, channel in
                let id = delegate.id
                delegate.logsBytes = false
                if id > 0 { channel.readByteLimit = 1 }
                delegate.onReceived = { _, channel in
                    if id > 0 { clock.advance(.milliseconds(1)) }
                    done.add(Done(tick: channel.loop.tickCount, id: id))
                }
            })
        defer { host.stop() }
        let quiet = try Peer(host.address)
        log.wait("adoption") { $0.contains(.opened(0)) }
        for number in 1...3 {
            quiet.send([0])
            done.wait("read \(number)") { $0.count == number }
        }
        var busy: [Peer] = []
        for id in 1...busyCount {
            busy.append(try Peer(host.address))
            log.wait("adoption") { $0.contains(.opened(id)) }
        }
        try block(host.loop) {
            for peer in busy { peer.send([1, 2]) }
            quiet.send([0])
        }
        let all = Array(done.wait("all reads") { $0.count == 3 + 2 * busyCount + 1 }.dropFirst(3))
        let first = try #require(all.map(\.tick).min())
        let quietTick = try #require(all.first { $0.id == 0 }?.tick)
        #expect(quietTick <= first + ticksLater, "\(quietTick), first \(first)")
        #expect(all.filter { $0.tick == first }.count < 8, "the busy ones have many ticks")
    }

    /// Many that sent little were not read for a while. What they have sent meanwhile is read behind a
    /// channel that sends little now.
    @Test func channelsWithABacklogAreReadAfterOthers() throws {
        let resumedCount = Int(PANDO_EVENT_LIMIT) + 100
        let clock = ScriptedClock()
        let log = Log<Event>()
        let done = Log<Done>()
        let channels = Confined<[Channel]>([])
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, channel in
                let id = delegate.id
                channels.value.append(channel)
                delegate.logsBytes = false
                delegate.onReceived = { _, channel in
                    if id > 0 { clock.advance(.milliseconds(1)) }
                    done.add(Done(tick: channel.loop.tickCount, id: id))
                }
            })
        defer { host.stop() }
        var peers: [Peer] = []
        for id in 0...resumedCount {
            let peer = try Peer(host.address)
            log.wait("adoption") { $0.contains(.opened(id)) }
            // After two reads a channel is not new any more.
            for number in 1...2 {
                peer.send([0])
                done.wait("read \(number)") { $0.count == 2 * id + number }
            }
            peers.append(peer)
        }
        let earlierCount = 2 * peers.count
        host.on { _ in
            for channel in channels.value.dropFirst() { channel.pauseReading() }
        }
        for peer in peers.dropFirst() { peer.send([1]) }
        try block(
            host.loop,
            after: {
                for channel in channels.value.dropFirst() {
                    channel.noteBacklog()
                    channel.resumeReading()
                }
            },
            while: { peers[0].send([1]) })
        let all = Array(
            done.wait("all reads") { $0.count == earlierCount + peers.count }.dropFirst(earlierCount))
        let quiet = try #require(all.first { $0.id == 0 })
        #expect(all.filter { $0.tick < quiet.tick }.count < 8, "the first tick has read few of the others")
        host.on { _ in channels.value = [] }
    }

    /// Where memory is short, all channels are read in small pieces.
    @Test func readsOfAllChannelsCanBeMadeShort() throws {
        let log = Log<Event>()
        let host = try Host(EventLoop.Configuration(), adopt: scripting(log) { _, _ in })
        defer { host.stop() }
        let peer = try Peer(host.address)
        log.wait("adoption") { $0.contains(.opened(0)) }
        host.on { loop in loop.readByteLimit = 2 }
        peer.send([1, 2, 3, 4, 5])
        let events = log.wait("all bytes") { $0.contains(.received(0, [5])) }
        #expect(events.contains(.received(0, [1, 2])) && events.contains(.received(0, [3, 4])))
        host.on { loop in loop.readByteLimit = Int.max }
        peer.send([6, 7, 8])
        log.wait("a long read") { $0.contains(.received(0, [6, 7, 8])) }
    }

    /// Events that take long come behind all others from then on, though they are reported first.
    @Test(arguments: [(cost: 100, first: 0), (300, 1)])
    func longReadsMakeAChannelBulk(cost: Int, first: Int) throws {
        let clock = ScriptedClock()
        let log = Log<Event>()
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, _ in
                delegate.logsBytes = false
                delegate.onReceived = { bytes, _ in
                    if bytes.byteCount > 1 { clock.advance(.microseconds(cost)) }
                    log.add(.received(delegate.id, [UInt8(clamping: bytes.byteCount)]))
                }
            })
        defer { host.stop() }
        var peers: [Peer] = []
        for id in 0..<2 {
            peers.append(try Peer(host.address))
            log.wait("adoption") { $0.contains(.opened(id)) }
            for number in 1...2 {
                peers[id].send([1])
                log.wait("read \(number)") { $0.count(where: { $0 == .received(id, [1]) }) == number }
            }
        }
        peers[0].send([UInt8](repeating: 0, count: 3000))
        log.wait("the long read") { $0.contains(.received(0, [255])) }
        let before = log.all.count
        try block(host.loop) {
            for peer in peers { peer.send([2]) }
        }
        let order = log.wait("both") { $0.count == before + 2 }.dropFirst(before)
        #expect(order.first == .received(first, [1]))
    }

    @Test func messagesAreSharedOutOverTicks() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Done>()
        func handle(_ batch: inout [Int]) {
            for message in batch {
                clock.advance(.milliseconds(1))
                done.add(Done(tick: loop.tickCount, id: message))
            }
        }
        let singly = Mailbox<Int>(signalling: loop.wakeup)
        let slices = Mailbox<Int>(signalling: loop.wakeup)
        loop.attach(singly, sliceCount: 1, handler: handle)
        loop.attach(slices, handler: handle)
        singly.post(contentsOf: Array(0..<50))
        slices.post(contentsOf: Array(1000..<1100))
        let thread = try NamedThread.start("loop") { loop.run() }
        let all = done.wait("all messages") { $0.count == 150 }
        loop.stop()
        thread.join()
        #expect(all.map(\.id).filter { $0 < 1000 } == Array(0..<50), "in order")
        #expect(all.map(\.id).filter { $0 >= 1000 } == Array(1000..<1100), "in order")
        #expect(most(all) <= 2 * (1 + 16), "a slice of each, and where there was time one more")
        let firstTick = try #require(all.first).tick
        #expect(
            Set(all.filter { $0.tick == firstTick }.map { $0.id >= 1000 }).count == 2, "both have their turn")
    }

    /// What waits for the next tick when the loop is stopped is delivered.
    @Test func stopDeliversTheRest() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Int>()
        let mailbox = Mailbox<Int>(signalling: loop.wakeup)
        loop.attach(mailbox, sliceCount: 1) { batch in
            for message in batch {
                clock.advance(.milliseconds(3))
                if message == 0 {
                    mailbox.post(contentsOf: Array(10..<20))
                    loop.stop()
                }
                done.add(message)
            }
        }
        mailbox.post(contentsOf: Array(0..<10))
        loop.run()
        #expect(done.all == Array(0..<20))
    }

    /// What is delivered without waiting for the next tick does not overtake what waits for it.
    @Test func deliveryInBetweenKeepsTheOrder() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Int>()
        let mailbox = Mailbox<Int>(signalling: loop.wakeup)
        let attachment = loop.attach(mailbox, sliceCount: 2) { batch in
            for message in batch {
                clock.advance(.milliseconds(3))
                done.add(message)
            }
        }
        var next = 10
        loop.onTickEnd = {
            guard next < 20 else { return }
            mailbox.post(next, signals: false)
            next += 1
            loop.deliver(attachment)
            loop.wakeup.signal()
        }
        mailbox.post(contentsOf: Array(0..<10))
        let thread = try NamedThread.start("loop") { loop.run() }
        #expect(done.wait("all messages") { $0.count == 20 } == Array(0..<20))
        loop.stop()
        thread.join()
    }

    @Test func timersAreSharedOutOverTicks() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Done>()
        for id in 0..<60 {
            loop.schedule(after: .milliseconds(10)) {
                clock.advance(.milliseconds(1))
                done.add(Done(tick: loop.tickCount, id: id))
            }
        }
        clock.advance(.milliseconds(100))
        let thread = try NamedThread.start("loop") { loop.run() }
        let all = done.wait("all timers") { $0.count == 60 }
        loop.stop()
        thread.join()
        #expect(all.map(\.id) == Array(0..<60))
        #expect(most(all) == 16, "the clock is looked at after eight, and again after eight")
    }

    /// A message that takes long is handled in parts, between which other mailboxes have their turn, and
    /// behind which the next messages come.
    @Test func partsOfAMessageAreSharedOutOverTicks() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Done>()
        let large = Mailbox<Int>(signalling: loop.wakeup)
        let small = Mailbox<Int>(signalling: loop.wakeup)
        var kept: [Int] = []
        loop.attachInParts(large, sliceCount: 1) { batch in
            #expect(batch.isEmpty != kept.isEmpty, "no other message before it has handled this one")
            kept += batch.flatMap { message in (0..<20).map { 100 * message + $0 } }
            clock.advance(.milliseconds(1))
            done.add(Done(tick: loop.tickCount, id: kept.removeFirst()))
            return !kept.isEmpty
        }
        loop.attach(small) { batch in
            for message in batch { done.add(Done(tick: loop.tickCount, id: message)) }
        }
        large.post(contentsOf: [1, 2])
        small.post(0)
        let thread = try NamedThread.start("loop") { loop.run() }
        let all = done.wait("all parts") { $0.count == 41 }
        loop.stop()
        thread.join()
        #expect(all.map(\.id).filter { $0 > 0 } == Array(100..<120) + Array(200..<220), "in order")
        #expect(most(all) <= 5)
        #expect(all.prefix(2).contains { $0.id == 0 }, "the other mailbox does not wait for all parts")
    }

    /// Parts that a handler has kept when the loop is stopped are handled.
    @Test func stopHandlesKeptParts() throws {
        let clock = ScriptedClock()
        let loop = try EventLoop(clock.configuration)
        let done = Log<Int>()
        let mailbox = Mailbox<Int>(signalling: loop.wakeup)
        var kept: [Int] = []
        loop.attachInParts(mailbox, sliceCount: 1) { batch in
            kept += batch.flatMap { message in (0..<20).map { 100 * message + $0 } }
            clock.advance(.milliseconds(3))
            let part = kept.removeFirst()
            if part == 101 { loop.stop() }
            done.add(part)
            return !kept.isEmpty
        }
        mailbox.post(contentsOf: [1, 2])
        loop.run()
        #expect(done.all == Array(100..<120) + Array(200..<220))
    }

    /// Many channels close in the same tick: `channelDidClose` is called over several ticks.
    @Test func closesOfManyChannelsAreSharedOutOverTicks() throws {
        let clock = ScriptedClock()
        let log = Log<Event>()
        let done = Log<Done>()
        let channels = Confined<[Channel]>([])
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, channel in
                let id = delegate.id
                channels.value.append(channel)
                delegate.onClose = { channel in
                    clock.advance(.milliseconds(1))
                    done.add(Done(tick: channel.loop.tickCount, id: id))
                }
            })
        defer { host.stop() }
        var peers: [Peer] = []
        for id in 0..<60 {
            peers.append(try Peer(host.address))
            log.wait("adoption") { $0.contains(.opened(id)) }
        }
        host.on { _ in
            for channel in exchange(&channels.value, with: []) { channel.close() }
        }
        let all = done.wait("all closes") { $0.count == 60 }
        #expect(all.map(\.id) == Array(0..<60), "in the order in which they have closed")
        #expect(most(all) == 4, "the clock is looked at after each")
        for peer in peers { #expect(peer.receive() == []) }
    }

    /// A loop that is stopped notifies all of them.
    @Test func stopNotifiesAllOfManyClosedChannels() throws {
        let clock = ScriptedClock()
        let log = Log<Event>()
        let host = try Host(
            clock.configuration,
            adopt: scripting(log) { delegate, _ in
                delegate.onClose = { _ in clock.advance(.milliseconds(3)) }
            })
        var peers: [Peer] = []
        for id in 0..<40 {
            peers.append(try Peer(host.address))
            log.wait("adoption") { $0.contains(.opened(id)) }
        }
        host.stop()
        let closed = log.all.filter { if case .closed(_, .loopStopped) = $0 { true } else { false } }
        #expect(closed.count == 40)
    }
}
