import PandoBytes
import PandoRandom
import Testing

@testable import PandoTraffic

/// The queue, the request and the histogram that senders reuse.
@Suite struct StampedRequestTests {
    private func pending(_ detail: Int) -> Pending {
        Pending(purpose: .operation, detail: detail, intended: detail * 3)
    }

    @Test func queueBehavesAsAnArray() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<50 {
            let queue = FIFO<(number: Int, request: Pending)>()
            var model: [Int] = []
            var next = 0
            for _ in 0..<400 {
                // Fills and empties in turns, so that the ring wraps around and grows while it is wrapped.
                if random.next() % 100 < (next / 40 % 2 == 0 ? 70 : 35) {
                    queue.append((next, pending(next)))
                    model.append(next)
                    next += 1
                } else {
                    let element = queue.popFirst()
                    #expect(element?.number == model.first && element?.request.detail == model.first)
                    if !model.isEmpty { model.removeFirst() }
                }
                #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
                #expect(queue.first?.number == model.first)
            }
        }
    }

    /// The request, made anew.
    private func request(
        _ path: String, _ number: Int, _ pending: Pending
    ) -> (bytes: [UInt8], stamp: Int, digits: Range<Int>) {
        var bytes = Array("{\"r\":".utf8)
        let start = bytes.count
        bytes.append(decimal: Int64(number))
        let digits = start..<bytes.count
        bytes.append(utf8: ",\"p\":\"\(path)\",\"d\":\"")
        let stamp = bytes.count
        Stamp.append(pending.detail, time: pending.intended, byteCount: 40, to: &bytes)
        bytes.append(utf8: "\"}")
        return (bytes, stamp, digits)
    }

    @Test func repeatedRequestEqualsANewOne() {
        let stamped = StampedRequest()
        let paths = ["a", "another, longer one", "b"]
        var (made, sent) = (0, 0)
        for number in Array(0...120) + [999, 1_000, 1_001, 99_999, 100_000, 999_999_999, 1_000_000_000] {
            let place = number / 50 % paths.count
            let pending = pending(number + 7)
            let whole = request(paths[place], number, pending)
            if !stamped.fits(place: place, number: number) {
                let empty = request(paths[place], number, self.pending(0))
                stamped.become(empty.bytes, place: place, stampOffset: empty.stamp, number: empty.digits)
                made += 1
                #expect(stamped.fits(place: place, number: number))
                #expect(!stamped.fits(place: place + 1, number: number))
            }
            stamped.with(pending, number: number) { bytes in
                sent += 1
                let isSame =
                    bytes.byteCount == whole.bytes.count
                    && withCursor(over: bytes) { cursor in
                        cursor.array(0..<cursor.count) == whole.bytes
                    }
                #expect(isSame, "\(number)")
            }
        }
        // 0…9, 10…49, 50…99, 100…120, then 999, 1000 and 1001, and the others each.
        #expect(sent == 128 && made == 10)
    }

    @Test func equalLatenciesAreCountedTogether() throws {
        let log = LatencyLog()
        #expect(log.take() == nil)
        for value in [0, 0, 5_000, 5_000, 5_000, 7_000, 5_000, -1] { log.record(value) }
        let recorded = log.recorded
        #expect(recorded.totalCount == 8)
        #expect(recorded.countForValue(5_000) == 4 && recorded.countForValue(7_000) == 1)
        log.record(9_000)
        let all = try #require(log.take())
        #expect(all.totalCount == 9 && all.maxRecorded == 9_000)
        #expect(log.take() == nil)
    }

    @Test func statisticsSeparateIntervals() {
        let statistics = WorkerStatistics(seriesCount: 2)
        statistics.operationDone(at: 1)
        statistics.record(0, since: 1, at: 2)
        statistics.begin(window: 100..<200)
        for moment in [50, 100, 199, 200] {
            statistics.operationDone(at: moment)
            statistics.record(1, since: moment, at: moment + 10_000)
        }
        statistics.delivered(at: 150)
        statistics.failed()
        let first = statistics.turn(to: 1)
        statistics.operationDone(at: 150)
        let second = statistics.turn(to: 2)
        #expect(first.second == 0 && first.operations == 4 && first.deliveries == 1 && first.errors == 1)
        #expect(first.latencies[0] == nil && first.latencies[1]?.totalCount == 2)
        #expect(second.second == 1 && second.operations == 1 && second.deliveries == 0 && second.errors == 0)
        #expect(second.latencies.allSatisfy { $0 == nil })
        #expect(statistics.operationCount == 5 && statistics.measuredOperationCount == 3)
        #expect(statistics.measuredDeliveryCount == 1)
    }
}
