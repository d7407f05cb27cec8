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
        #expect(Self.write(["a/y"], root, &pins) == 0, "small")
        #expect(pin.byteCount == 0)
        #expect(Self.write(["a/x"], root, &pins) == 1)
        #expect((60_000..<80_000).contains(pin.byteCount), "2001 nodes")
        let first = pin.byteCount
        #expect(Self.write(["a/x"], root, &pins) == 0, "a snapshot has one value of a location")
        #expect(Self.write(["a/x/1"], root, &pins) == 0)
        #expect(pin.byteCount == first && pins.hasPins(of: 1))
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
                #expect(pin.byteCount == expected, "seed \(seed)")
            }
        }
    }
}
