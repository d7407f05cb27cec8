import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

@Suite struct ReadLocationsTests {
    private static let keys = (0..<6).map { Key(unchecked: Text("k\($0)")) }

    private static func path(_ random: inout SeededGenerator, depth: Int) -> Path {
        Path((0..<depth).map { _ in random.pick(keys) })
    }

    private static func value(_ random: inout SeededGenerator) -> Node {
        random.pick([.empty, .integer(1), .integer(2), .string("a"), .integer(1).with(priority: .number(3))])
    }

    /// "Unchanged" is said only where each location is equal, or exists as before; and always where nothing
    /// was written at, above or below one, as long as no parent had to be noted instead.
    @Test(arguments: 0..<16) func agreesWithComparisons(seed: Int) {
        var random = SeededGenerator(seed: seed)
        var (same, changed, collapsed) = (0, 0, 0)
        for step in 0..<500 {
            let limit = random.pick([8, 30, 10_000])
            var before = Node.empty
            for _ in 0..<Int.random(in: 0..<60, using: &random) {
                before.set(
                    Self.value(&random), at: Self.path(&random, depth: Int.random(in: 1...4, using: &random)))
            }
            var (reads, locations) = ([(Path, ReadLocations.Part)](), ReadLocations(limit: limit))
            // Of another decision: half of the locations come by a union.
            var others = ReadLocations(limit: limit)
            for _ in 0..<Int.random(in: 0..<40, using: &random) {
                let path = Self.path(&random, depth: Int.random(in: 0...4, using: &random))
                if path.isRoot, Int.random(in: 0..<20, using: &random) > 0 { continue }
                let part: ReadLocations.Part = random.pick([.existence, .all])
                reads.append((path, part))
                if Bool.random(using: &random) {
                    locations.insert(path.keys[...], part)
                } else {
                    others.insert(path.keys[...], part)
                }
                #expect(locations.count <= limit && others.count <= limit)
            }
            locations.formUnion(others)
            #expect(locations.count <= limit)
            locations.formUnion(others)
            var now = before
            var written: [Path] = []
            for _ in 0..<Int.random(in: 0..<4, using: &random) {
                written.append(Self.path(&random, depth: Int.random(in: 1...4, using: &random)))
                now.set(Self.value(&random), at: written[written.count - 1])
            }
            let isUnchanged = locations.areUnchanged(from: before, to: now)
            let isEqual = reads.allSatisfy { path, part in
                part == .all ? before[path] == now[path] : before[path].isEmpty == now[path].isEmpty
            }
            let isBeside = !written.contains { one in
                reads.contains { $0.0.contains(one) || one.contains($0.0) }
            }
            #expect(!isUnchanged || isEqual, "seed \(seed), step \(step): \(reads), \(before) to \(now)")
            let isExact = Set(reads.map(\.0)).count * 4 <= limit
            if isBeside, isExact {
                #expect(isUnchanged, "seed \(seed), step \(step): \(reads), \(before) to \(now)")
            }
            if isUnchanged { same += 1 } else { changed += 1 }
            if !isExact { collapsed += 1 }
        }
        #expect(same > 50 && changed > 50 && collapsed > 50, "seed \(seed): \(same) \(changed) \(collapsed)")
    }

    /// However many locations there are: the work is that of what has changed.
    @Test func visitsWhatHasChanged() {
        let users = (0..<50_000).map { Key(unchecked: Text("u\($0)")) }
        var before = Node.empty
        var locations = ReadLocations()
        for user in users {
            before.set(.integer(1), at: Path(["users", user, "name"]))
            locations.insert(["users", user][...], .existence)
        }
        func isUnchanged(_ paths: [Path]) -> Bool {
            var now = before
            for path in paths { now.set(.integer(2), at: path) }
            return locations.areUnchanged(from: before, to: now, visitingAtMost: 256)
        }
        #expect(isUnchanged([]))
        #expect(isUnchanged(["users/u7/seen", "users/new", "beside"]))
        #expect(!isUnchanged(["users"]))
        // More than may be visited.
        #expect(!isUnchanged((0..<900).map { Path(trusted: "users/new\($0)") }))
    }

    @Test func memoryIsBounded() {
        var locations = ReadLocations(limit: 1000)
        for number in 0..<20_000 {
            let group = Key(unchecked: Text("g\(number % 3)"))
            locations.insert(["few", "x", "y"][...])
            locations.insert(["many", group, Key(unchecked: Text("k\(number)"))][...])
            #expect(locations.count <= 1000)
        }
        let before = Node.empty
        func isUnchanged(_ path: Path) -> Bool {
            var now = before
            now.set(.integer(1), at: path)
            return locations.areUnchanged(from: before, to: now)
        }
        // Only the parent that had many is noted as a whole.
        #expect(isUnchanged("beside") && isUnchanged("few/x/z") && !isUnchanged("few/x/y"))
        #expect(!isUnchanged("many/g1/other"))
        #expect(isUnchanged("many/g4/other"))
    }
}
