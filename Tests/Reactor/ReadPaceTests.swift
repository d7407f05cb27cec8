import Testing

@testable import PandoReactor

/// When a channel is bulk: read after others in a tick.
@Suite struct ReadPaceTests {
    fileprivate enum Event {
        case read
        case fullRead
        case longRead
        case writable
        case answered
    }

    @Test(
        arguments: [
            // events                                              bulk after each, because
            ([.read, .read, .read], [true, false, false], "a channel is new until its second read"),
            (
                [.read, .writable], [true, false],
                "a client that sends once and then reads is not new for ever"
            ),
            ([.writable, .read], [false, false], "one that was written to is not new"),
            (
                [.read, .fullRead] + Array(repeating: .read, count: 8),
                [true, true] + Array(repeating: true, count: 7) + [false],
                "eight reads, the full one included"
            ),
            (
                [.read, .longRead] + Array(repeating: .read, count: 9),
                [true, true] + Array(repeating: true, count: 8) + [false], "eight reads after a long one"
            ),
            (
                [.fullRead, .answered, .read], [true, false, false],
                "the reads of a handshake are not counted"
            ),
            ([.read, .fullRead, .writable], [true, true, true], "output does not make it less busy"),
        ] as [([Event], [Bool], String)])
    fileprivate func isBulk(events: [Event], expected: [Bool], because: String) {
        var pace = ReadPace()
        let found = events.map { event in
            switch event {
            case .read: return pace.noteRead(isFull: false)
            case .fullRead: return pace.noteRead(isFull: true)
            case .longRead:
                _ = pace.noteRead(isFull: false)
                pace.noteLong()
                return true
            case .writable: return pace.noteWritable()
            case .answered: return pace.noteAnswered(isFull: false)
            }
        }
        #expect(found == expected, "\(because)")
    }
}
