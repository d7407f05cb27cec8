import PandoEngine
import PandoStorage
import Testing

@testable import PandoDatabase

/// Operations that wait for space are performed in order, and none that writes overtakes an older one.
@Suite struct DeferredOperationsTests {
    private static let database = StoredDatabase(id: 1, name: "a", access: .open)

    /// The sessions in the order in which they were performed, with `space` bytes of journal.
    private static func perform(
        _ deferred: inout DeferredOperations, space: Int, needs: [UInt64: Int]
    ) -> [UInt64] {
        var done: [UInt64] = []
        var left = space
        deferred.perform { item, isFirst, firstByteCount in
            let needed = needs[item.session.rawValue] ?? 0
            guard needed == 0 || isFirst && firstByteCount <= left else { return .waits(byteCount: nil) }
            guard needed <= left else { return .waits(byteCount: needed) }
            left -= needed
            done.append(item.session.rawValue)
            return .done(wroteJournal: needed > 0)
        }
        return done
    }

    private static func deferred(_ sessions: [UInt64]) -> DeferredOperations {
        var deferred = DeferredOperations()
        for session in sessions {
            deferred.append(.endSession, of: SessionID(session), in: database)
        }
        return deferred
    }

    @Test(
        arguments: [
            ([:], 0, [], "nothing waits"),
            ([1: 10, 2: 10], 20, [1, 2], "space for both"),
            ([1: 10, 2: 10], 19, [1], "space for the first"),
            ([1: 10, 2: 1], 9, [], "the second would fit, but does not overtake"),
            ([1: 10, 2: 0, 3: 0], 9, [2, 3], "operations that write nothing need no space"),
        ] as [([UInt64: Int], Int, [UInt64], String)])
    func order(needs: [UInt64: Int], space: Int, done: [UInt64], because: String) {
        var deferred = Self.deferred(needs.keys.sorted())
        #expect(Self.perform(&deferred, space: space, needs: needs) == done, "\(because)")
        #expect(deferred.isEmpty == (done.count == needs.count))
    }

    /// What the first needs is known after it was tried once, and forgotten when it is done.
    @Test func bytesOfTheFirst() {
        let needs: [UInt64: Int] = [1: 10, 2: 30]
        var deferred = Self.deferred([1, 2])
        #expect(deferred.firstByteCount == 0)
        #expect(Self.perform(&deferred, space: 5, needs: needs) == [])
        #expect(deferred.firstByteCount == 10)
        #expect(Self.perform(&deferred, space: 10, needs: needs) == [1])
        #expect(deferred.firstByteCount == 30)
        #expect(Self.perform(&deferred, space: 30, needs: needs) == [2])
        #expect(deferred.isEmpty && deferred.firstByteCount == 0)
    }
}
