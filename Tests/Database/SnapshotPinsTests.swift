import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoEngine

/// What outputs that wait keep of data that writes have replaced. Not the process's count, which other tests
/// change at the same time.
@Suite struct SnapshotPinsTests {
    /// Prints to more than 16 KiB.
    private static func large(_ count: Int = 2000) -> Node {
        .children(
            Children(
                ascending: (0..<count).map { .init(key: Key(index: $0), node: .integer(Int64($0 + 1))) }))
    }

    private static func root(_ places: [Path: Node]) -> Node {
        var root = Node.empty
        for (path, node) in places.sorted(by: { $0.key < $1.key }) { root.set(node, at: path) }
        return root
    }

    /// Weighs what a write has replaced, as a worker does.
    private static func write(_ paths: [Path], _ root: Node, _ pins: inout SnapshotPins) -> Int {
        let values = pins.note(paths, replacing: root, in: 1)
        for value in values { value.weigh() }
        return values.count
    }

    @Test func aPinKeepsWhatWritesReplace() {
        var pins = SnapshotPins()
        #expect(!pins.hasPins(of: 1))
        let root = Self.root(["a/x": Self.large(), "a/y": .integer(1), "b": Self.large()])
        let pin = SnapshotPin()
        pins.add(pin, at: "a", in: 1)
        #expect(Self.write(["b"], root, &pins) == 0, "elsewhere")
        #expect(pins.note(["a/x"], replacing: root, in: 2).isEmpty, "another database")
        #expect(pin.byteCount == 0 && pin.isPlaced)
        #expect(Self.write(["a/x"], root, &pins) == 1)
        #expect((60_000..<80_000).contains(pin.byteCount), "2001 nodes")
        let first = pin.byteCount
        #expect(Self.write(["a/x"], root, &pins) == 0, "a snapshot has one value of a location")
        #expect(Self.write(["a/x/1"], root, &pins) == 0)
        #expect(pin.byteCount == first && pins.hasPins(of: 1))
    }

    /// Small values count each location once, with the page that its write copies; a reader that comes later
    /// holds what is replaced after that.
    @Test func smallValuesAreCounted() {
        var pins = SnapshotPins()
        let root = Self.root(["a/x": Self.large()])
        let page = 1072
        let (first, later) = (SnapshotPin(), SnapshotPin())
        pins.add(first, at: "a/x", in: 1)
        #expect(Self.write(["a/x/1"], root, &pins) == 0, "nothing for a worker")
        let seen = SeenLocations.leastByteCount
        #expect(first.byteCount == page + seen)
        #expect(Self.write(["a/x/1"], root, &pins) == 0)
        #expect(first.byteCount == page + seen, "the same location again")
        pins.add(later, at: "a/x", in: 1)
        #expect(later.byteCount == 0)
        #expect(Self.write(["a/x/1"], root, &pins) == 0)
        #expect(later.byteCount == page + seen && first.byteCount == 2 * (page + seen))
    }

    /// A write of many locations: a worker counts what it has replaced of each snapshot, at most all of it.
    @Test(
        arguments: [
            // pinned   changed   kept, at least   at most   because
            ("a/x", (0..<100).map { "a/x/\($0)" }, 60_000, 80_000, "each in a page, but all are no more"),
            ("a", (0..<100).map { "a/x/\($0)" }, 60_000, 80_000, "a location above"),
            ("a/x", (0..<100).map { "b/\($0)" }, 0, 0, "elsewhere"),
            ("a/x", ["a/x"] + (0..<100).map { "b/\($0)" }, 60_000, 80_000, "all of it is replaced"),
            ("a/x", ["a/x/1"] + (0..<100).map { "b/\($0)" }, 1072, 6000, "a single one"),
        ] as [(Path, [String], Int, Int, String)])
    func manyChangesAreCounted(pinned: Path, changed: [String], least: Int, most: Int, because: String) {
        var pins = SnapshotPins()
        let root = Self.root(["a/x": Self.large()])
        let pin = SnapshotPin()
        pins.add(pin, at: pinned, in: 1)
        let changes = changed.map { Change(path: Path(stringLiteral: $0), node: .integer(7)) }
        let write = pins.note(changes, below: .root, replacing: root, in: 1)
        #expect(pin.byteCount == 0, "not weighed")
        write?.weigh()
        #expect(pin.byteCount >= least && pin.byteCount <= most, "\(because): \(pin.byteCount)")
        let byteCount = pin.byteCount
        pins.note(changes, below: .root, replacing: root, in: 1)?.weigh()
        #expect(pin.byteCount == byteCount, "\(because): the same again")
    }

    /// Readers of the same data share one version, however many they are: none is beyond a limit.
    @Test func readersOfTheSameDataShareAVersion() {
        var pins = SnapshotPins()
        let root = Self.root(["a": Self.large()])
        let readers = (0..<1000).map { _ in SnapshotPin() }
        for reader in readers { pins.add(reader, at: "a", in: 1) }
        #expect(Self.write(["a"], root, &pins) == 1)
        #expect(readers.allSatisfy { $0.isPlaced && $0.byteCount > 60_000 })
    }

    /// A version that outlives hundreds of later ones, each with a change behind it, forgets no change.
    @Test func aVersionCountsAllLaterChanges() {
        var pins = SnapshotPins()
        let root = Self.root(["a": Self.large()])
        let first = SnapshotPin()
        pins.add(first, at: "a", in: 1)
        for index in 0..<300 {
            let later = SnapshotPin()
            pins.add(later, at: "a", in: 1)
            _ = Self.write([Path(["a", Key(index: index)])], root, &pins)
            withExtendedLifetime(later) {}
        }
        #expect(first.byteCount >= 300 * 1072)
    }

    /// A write at the location or above it replaces all that the pin holds: then nothing more can be.
    @Test(arguments: ["a/x", "a", ""] as [Path]) func aWriteAboveReplacesAll(path: Path) {
        var pins = SnapshotPins()
        let root = Self.root(["a/x": Self.large(), "b": Self.large(50_000)])
        let pin = SnapshotPin()
        pins.add(pin, at: "a/x", in: 1)
        #expect(Self.write([path], root, &pins) == 1)
        #expect((60_000..<80_000).contains(pin.byteCount), "what else is replaced is not the pin's")
        #expect(!pins.hasPins(of: 1))
    }

    /// Pins of one version share what they keep; those of the next have their own.
    @Test func aValueIsCountedOnce() {
        var pins = SnapshotPins()
        let root = Self.root(["a": Self.large()])
        let (first, second, later) = (SnapshotPin(), SnapshotPin(), SnapshotPin())
        for pin in [first, second] { pins.add(pin, at: "a", in: 1) }
        #expect(Self.write(["a"], root, &pins) == 1)
        pins.add(later, at: "a", in: 1)
        #expect(later.byteCount == 0 && first.byteCount > 0 && first.byteCount == second.byteCount)
        #expect(Self.write(["a"], root, &pins) == 1)
        #expect(later.byteCount == first.byteCount)
    }

    /// Of outputs that are gone nothing is weighed, and the places do not grow with their number.
    @Test func pinsThatAreGoneAreForgotten() {
        var pins = SnapshotPins()
        let root = Self.root(["a": Self.large()])
        for _ in 0..<10 { pins.add(SnapshotPin(), at: "a", in: 1) }
        #expect(Self.write(["a"], root, &pins) == 0)
        #expect(!pins.hasPins(of: 1))
        let pin = SnapshotPin()
        pins.add(pin, at: "a", in: 1)
        pins.add(SnapshotPin(), at: "c", in: 1)
        for _ in 0..<100 { _ = Self.write(["b"], root, &pins) }
        #expect(pins.hasPins(of: 1))
        #expect(Self.write(["a"], root, &pins) == 1 && pin.byteCount > 0)
        #expect(!pins.hasPins(of: 1), "writes elsewhere have found that the other is gone")
    }

    /// What a write of very many locations leaves in place is not kept, nor what a priority leaves.
    @Test func onlyChangedLocationsAreNoted() {
        let root = Self.root(["a/x": .integer(1), "b": Self.large()])
        let engine = Engine(root: root, access: .open)
        let writes = (0..<100).map { Write(Target(Path(["a", Key(index: $0)])), Draft(.integer(7))) }
        for (operation, count): (PandoEngine.Operation, Int) in [
            (.merge(base: .root, writes), 64),
            (.put(Write(Target("b", isPriority: true), Draft(.integer(1)))), 0),
            (.put(Write(Target("a/x"), Draft(.integer(2)))), 1),
        ] {
            let paths = engine.decide(
                Command(session: SessionID(1), credential: .admin, time: 1, operation: operation)
            ).changedPaths
            var pins = SnapshotPins()
            let pin = SnapshotPin()
            pins.add(pin, at: "b", in: 1)
            #expect(paths.count == count && Self.write(paths, root, &pins) == 0)
            #expect(pin.byteCount == 0 && pins.hasPins(of: 1))
        }
    }

    /// Random pins and writes: each pin keeps exactly the large values, at its location or below it, that
    /// were replaced while it was there, those below another one not twice.
    @Test(arguments: 0..<40 as Range<UInt64>) func pinsAgainstAModel(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let places: [Path] = ["", "a", "a/b", "a/b/c", "a/d", "ab", "b", "b/a"]
        let root = Self.root(["a/b/c": Self.large(3000), "a/d": Self.large(2000), "b/a": Self.large(4000)])
        var pins = SnapshotPins()
        var model: [(pin: SnapshotPin, path: Path, kept: [Path], isDone: Bool)] = []
        for _ in 0..<60 {
            if Bool.random(using: &random) {
                let (pin, path) = (SnapshotPin(), places.randomElement(using: &random) ?? .root)
                pins.add(pin, at: path, in: 1)
                model.append((pin, path, [], false))
            } else {
                let path = places.randomElement(using: &random) ?? .root
                _ = Self.write([path], root, &pins)
                for index in model.indices where !model[index].isDone {
                    let pinned = model[index].path
                    guard path.contains(pinned) || pinned.contains(path) else { continue }
                    let lost = path.contains(pinned) ? pinned : path
                    model[index].isDone = path.contains(pinned)
                    guard root[lost].isHeavier(than: 16 << 10),
                        !model[index].kept.contains(where: { $0.contains(lost) })
                    else { continue }
                    model[index].kept.append(lost)
                }
            }
            if !model.isEmpty, Bool.random(using: &random) {
                model.remove(at: Int.random(in: model.indices, using: &random))
            }
            for (pin, _, kept, _) in model {
                let expected = kept.reduce(0) { sum, path in
                    let value = ReplacedValue()
                    value.weigh(root[path])
                    return sum + value.byteCount
                }
                #expect(pin.valueByteCount == expected && pin.byteCount >= expected, "seed \(seed)")
            }
        }
    }
}
