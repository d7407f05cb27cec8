import PandoBytes
import PandoDatabase
import PandoREST
import PandoTime
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoEngine

/// What an event stream holds of writes of many locations for a client that does not read (rest §8.2).
@Suite struct EventStreamBoundsTests {
    private static func update(_ count: Int) -> StreamUpdate {
        StreamUpdate(
            (0..<count).map {
                Push.Entry(path: Path(trusted: "a\($0 % 7)/b\($0)"), node: .integer(Int64($0)))
            }, at: .root, isQuery: false)
    }

    private static func stream(byteLimit: Int = 16 << 20) -> EventStream {
        var stream = EventStream(
            JSONForm(), waitingByteLimit: byteLimit, now: MonotonicTime(nanoseconds: 0))
        let hasSpace = stream.append([.put(.root, .integer(1))])
        #expect(hasSpace)
        while stream.next() != nil {}
        return stream
    }

    /// One write of more events than may wait does not cut off a client that has read everything before.
    @Test func oneUpdateOfAnySizeIsSent() {
        var stream = Self.stream()
        let update = Self.update(20_000)
        let hasSpace = stream.append(update)
        #expect(hasSpace && stream.waitingCount == 1)
        var text: [UInt8] = []
        while let piece = stream.next() { text += piece }
        var expected: [UInt8] = []
        for event in update.events { expected.append(event: event) }
        #expect(text == expected)
        #expect(stream.waitingCount == 0 && stream.heldByteCount == 0 && !stream.isPrinting)
    }

    /// While one is being sent, the events of the next ones wait, and are counted without being made.
    @Test func eventsThatWaitAreCounted() {
        var stream = Self.stream()
        let update = Self.update(20_000)
        var hasSpace = stream.append(update)
        #expect(hasSpace && stream.next() != nil)
        #expect(stream.unsentEventCount > 10_000 && stream.isPrinting)
        hasSpace = stream.append(Self.update(9000))
        #expect(hasSpace)
        hasSpace = stream.append(Self.update(2000))
        #expect(!hasSpace)
    }

    /// An update whose children have one parent is one `patch`, however many they are (rest §8.2).
    @Test func aPatchIsOneEvent() {
        let update = StreamUpdate(
            (0..<20_000).map { Push.Entry(path: Path(trusted: "a/b\($0)"), node: .integer(Int64($0))) },
            at: .root, isQuery: false)
        #expect(update.events.count == 1 && update.eventCount == 1)
        var stream = Self.stream()
        for count in 1...5 {
            let hasSpace = stream.append(update)
            #expect(hasSpace && stream.unsentEventCount == count)
        }
    }

    /// Bytes that wait count whole towards what may wait, and little as memory, which others share.
    @Test func bytesThatWaitAreCounted() {
        let weight = Self.update(1000).weight
        var stream = Self.stream(byteLimit: 3 * weight)
        for count in 0..<5 {
            let hasSpace = stream.append(Self.update(1000))
            #expect(hasSpace == (count <= 3))
            #expect(stream.waitingByteCount == count * weight)
            #expect(stream.heldByteCount == count * (weight / 16))
        }
        while stream.next() != nil {}
        #expect(stream.waitingByteCount == 0 && stream.heldByteCount == 0)
    }

    private static func window(_ count: Int) -> StreamWindow {
        let children = (0..<count).map {
            Children.Entry(key: Key(unchecked: Text("k\(100_000 + $0)")), node: .integer(Int64($0)))
        }
        return StreamWindow(Window(Query(order: .key), over: .object(Children(ascending: children))))
    }

    /// A window counts from the first event on until it is printed, for each stream its part.
    @Test func windowsAreCountedWhileTheyAreHeld() {
        let window = Self.window(10_000)
        var streams = (0..<2).map { _ in
            EventStream(JSONForm(), waitingByteLimit: 16 << 20, now: MonotonicTime(nanoseconds: 0))
        }
        for index in streams.indices {
            let hasSpace = streams[index].append(window)
            #expect(hasSpace && streams[index].heldByteCount == window.byteCount / (index + 1))
        }
        #expect(streams[0].next() == nil && streams[0].waitingCount == 1, "it is not made yet")
        window.make()
        #expect(streams[0].next() != nil && streams[0].heldByteCount >= window.byteCount / 2)
        while streams[0].next() != nil {}
        #expect(streams[0].heldByteCount == 0 && streams[0].waitingCount == 0 && !streams[0].isPrinting)
        #expect(streams[1].heldByteCount == window.byteCount)
    }

    /// What waits behind a window comes behind it, in order.
    @Test func windowsKeepTheirPlace() {
        let windows = [Self.window(300), Self.window(301)]
        var stream = Self.stream()
        var expected: [UInt8] = []
        for (index, window) in windows.enumerated() {
            let following = StreamEvent.put("k", .integer(Int64(index)))
            var hasSpace = stream.append(window)
            #expect(hasSpace)
            hasSpace = stream.append([following])
            #expect(hasSpace)
            for event in window.events + [following] { expected.append(event: event) }
        }
        windows[1].make()
        #expect(stream.next() == nil, "the first is not made yet")
        windows[0].make()
        var text: [UInt8] = []
        while let piece = stream.next() { text += piece }
        #expect(text == expected && stream.heldByteCount == 0 && stream.waitingByteCount == 0)
    }
}
