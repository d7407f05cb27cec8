import Testing

@testable import PandoDatabase

/// When outputs are released, as a table of what happens.
@Suite struct DurabilityGateTests {
    enum Step: Sendable {
        /// Outputs are held until a ticket is durable.
        case hold(String, until: UInt64)
        /// Everything up to a ticket is durable.
        case confirm(UInt64)
        /// What may leave now, in order.
        case release([String])
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var steps: [Step]
        /// What still waits, in order.
        var left: [String] = []

        var testDescription: String { name }
    }

    static let rows = [
        Row(name: "nothing is held", steps: [.release([]), .confirm(5), .release([])]),
        Row(
            name: "in memory the ticket remains 0: released at once",
            steps: [.hold("a", until: 0), .release(["a"])]),
        Row(
            name: "not before its ticket",
            steps: [.hold("a", until: 3), .release([]), .confirm(2), .release([])], left: ["a"]),
        Row(name: "with its ticket", steps: [.hold("a", until: 3), .confirm(3), .release(["a"])]),
        Row(name: "with a later ticket", steps: [.hold("a", until: 3), .confirm(9), .release(["a"])]),
        Row(
            name: "a ticket that was durable before: still not without a release",
            steps: [.confirm(3), .hold("a", until: 3), .release(["a"]), .release([])]),
        Row(
            name: "a read behind a write waits for the write",
            steps: [
                .hold("write", until: 1), .hold("read", until: 1), .release([]), .confirm(1),
                .release(["write", "read"]),
            ]),
        Row(
            name: "in the order of decision, each with its own ticket",
            steps: [
                .hold("a", until: 3), .hold("b", until: 3), .hold("c", until: 5), .confirm(4),
                .release(["a", "b"]), .confirm(5), .release(["c"]),
            ]),
        Row(
            name: "what comes later waits for its own ticket",
            steps: [
                .hold("a", until: 1), .confirm(1), .hold("b", until: 2), .release(["a"]), .confirm(2),
                .release(["b"]),
            ]),
        Row(
            name: "an older report of the journal takes nothing back",
            steps: [.confirm(7), .confirm(3), .hold("a", until: 6), .release(["a"])]),
        Row(
            name: "confirmed, but not released yet",
            steps: [.hold("a", until: 1), .confirm(1)], left: ["a"]),
    ]

    @Test(arguments: rows) func release(row: Row) {
        var gate = DurabilityGate<String>()
        for step in row.steps {
            switch step {
            case .hold(let outputs, let ticket): gate.hold(outputs, until: ticket, requestByteCount: 1)
            case .confirm(let ticket): gate.confirm(upTo: ticket)
            case .release(let expected):
                var released: [String] = []
                gate.release { released.append($0.outputs) }
                #expect(released == expected)
            }
        }
        #expect(gate.isEmpty == row.left.isEmpty)
        #expect(gate.removeAll() == row.left)
        #expect(gate.isEmpty)
    }

    @Test func bytesOfRequestsComeBackOnce() {
        var gate = DurabilityGate<Int>()
        gate.hold(1, until: 1, requestByteCount: 10)
        gate.hold(2, until: 2, requestByteCount: 0)
        gate.hold(3, until: 2, requestByteCount: 7)
        var byteCount = 0
        for ticket: UInt64 in 0...3 {
            gate.confirm(upTo: ticket)
            gate.release { byteCount += $0.requestByteCount }
        }
        #expect(byteCount == 17 && gate.isEmpty)
    }

    @Test func outputsAreMovedOut() {
        var gate = DurabilityGate<[Int]>()
        gate.hold([1, 2], until: 0, requestByteCount: 0)
        var moved: [Int] = []
        gate.release { moved = exchange(&$0.outputs, with: []) }
        #expect(moved == [1, 2])
    }

    /// All interleavings of holds, confirmations and releases of a small journal: nothing leaves early,
    /// nothing overtakes, and in the end everything has left.
    @Test(arguments: 0..<200 as Range<UInt64>) func anyOrder(seed: UInt64) {
        var state = seed
        func random(_ bound: UInt64) -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (state >> 33) % bound
        }
        var gate = DurabilityGate<Int>()
        var (ticket, durable, number): (UInt64, UInt64, Int) = (0, 0, 0)
        var waiting: [(number: Int, ticket: UInt64)] = []
        func release() {
            let expected = waiting.prefix { $0.ticket <= durable }.map(\.number)
            waiting.removeFirst(expected.count)
            var released: [Int] = []
            gate.release { released.append($0.outputs) }
            #expect(released == expected, "seed \(seed)")
        }
        for _ in 0..<50 {
            switch random(4) {
            case 0: ticket += random(3)
            case 1:
                number += 1
                waiting.append((number, ticket))
                gate.hold(number, until: ticket, requestByteCount: 0)
            case 2:
                // Reports of the journal may come late.
                let reported = ticket == 0 ? 0 : random(ticket + 1)
                durable = max(durable, reported)
                gate.confirm(upTo: reported)
            default: release()
            }
        }
        durable = ticket
        gate.confirm(upTo: ticket)
        release()
        #expect(gate.isEmpty && gate.isDurable(ticket))
    }
}
