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
}
