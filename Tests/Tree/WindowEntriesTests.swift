import PandoBytes
import PandoRandom
import Testing

@testable import PandoTree

/// The paged children of a window, against a sorted array.
@Suite struct WindowEntriesTests {
    private static func entry(_ number: Int) -> WindowEntry {
        WindowEntry(value: .empty, key: Key(index: number), node: .integer(Int64(number)))
    }

    private static func position(of number: Int, in entries: WindowEntries) -> WindowEntries.Position {
        let key = Key(index: number)
        return entries.position { $0.key < key ? -1 : $0.key == key ? 0 : 1 }
    }

    @Test(arguments: 0..<8) func entriesAreThoseOfASortedArray(seed: Int) {
        var random = SeededGenerator(seed: seed)
        // An even number is in the middle; the others are added at the ends.
        var expected = (0..<(seed * 100)).map { 100_000 + 10 * $0 }
        var entries = WindowEntries(expected.map(Self.entry))
        for step in 0..<4000 {
            // Grows, then shrinks, then is emptied.
            let growing = step < 2500 ? 60 : 35
            let number = 100_000 + Int.random(in: 0..<20_000, using: &random)
            let position = Self.position(of: number, in: entries)
            #expect(position.isPresent == expected.contains(number))
            if Int.random(in: 0..<100, using: &random) < growing {
                guard !position.isPresent else { continue }
                entries.insert(Self.entry(number), at: position)
                expected.insert(number, at: expected.firstIndex { $0 > number } ?? expected.count)
            } else if let chosen = expected.randomElement(using: &random) {
                let removed = entries.remove(at: Self.position(of: chosen, in: entries))
                expected.removeAll { $0 == chosen }
                #expect(removed.key == Key(index: chosen))
            }
            guard Int.random(in: 0..<100, using: &random) < 3 else { continue }
            let count = Int.random(in: 0...150, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let removed = entries.removeFirst(count)
                #expect(removed.map(\.key) == expected.prefix(count).map { Key(index: $0) })
                expected.removeFirst(min(count, expected.count))
            case 1:
                let removed = entries.removeLast(count)
                #expect(removed.map(\.key) == expected.suffix(count).map { Key(index: $0) })
                expected.removeLast(min(count, expected.count))
            case 2:
                let first = expected.first ?? 100_000
                let added = (0..<count).map { first - count + $0 }
                entries.prepend(contentsOf: added.map(Self.entry))
                expected.insert(contentsOf: added, at: 0)
            default:
                let last = expected.last ?? 100_000
                let added = (0..<count).map { last + 1 + $0 }
                entries.append(contentsOf: added.map(Self.entry))
                expected += added
            }
            entries.checkInvariants()
            #expect(entries.count == expected.count && entries.isEmpty == expected.isEmpty)
            #expect(entries.first?.key == expected.first.map { Key(index: $0) })
            #expect(entries.last?.key == expected.last.map { Key(index: $0) })
            if entries.map(\.key) != expected.map({ Key(index: $0) }) {
                Issue.record("seed \(seed), step \(step)")
                return
            }
        }
        entries.checkInvariants()
        #expect(entries.map(\.key) == expected.map { Key(index: $0) })
    }

    /// Windows that grow at their end, as lists with ascending keys do, have full pages; random ones half of
    /// that.
    @Test func pagesStayFull() {
        var entries = WindowEntries()
        for number in 0..<10_000 {
            entries.insert(Self.entry(number), at: Self.position(of: number, in: entries))
        }
        #expect(entries.pageCount <= 10_000 / 128 + 1)
        for number in 0..<9_900 {
            _ = entries.remove(at: Self.position(of: number * 37 % 10_000, in: entries))
        }
        #expect(entries.count == 100 && entries.pageCount <= 10)
    }
}
