import PandoBytes
import PandoEngine
import PandoHTTP
import PandoJournal
import PandoRandom
import PandoRules
import PandoSimulatedDisk
import PandoTree
import PandoWebSocket
import PandoWire

// What `pando-bench micro` measures, module by module. Each call returns whether its result is right.

/// A message of 100 bytes, as chats and games send them.
private let messageJSON =
    #"{"from":"-OabcdefghijklmnopqR","text":"Shall we meet at the old oak at noon?","at":1760000000000}"#

/// 100 groups of 100 members: 10 000 leaves.
private func groups() -> Node {
    var tree = Node.empty
    for group in 0..<100 {
        for member in 0..<100 { tree.set(.integer(Int64(member)), at: path(group, member)) }
    }
    return tree
}

private func path(_ group: Int, _ member: Int) -> Path {
    Path(["groups", Key(unchecked: Text("group\(group)")), Key(unchecked: Text("member\(member)"))])
}

/// Paths in an order without locality, the same in every run.
private let paths: [Path] = {
    var random = SeededGenerator(seed: 1)
    return (0..<4096).map { _ in
        path(Int.random(in: 0..<100, using: &random), Int.random(in: 0..<100, using: &random))
    }
}()

// MARK: Values

func jsonTimings(_ effort: MicroEffort) throws -> [Timing] {
    let bytes = Array(messageJSON.utf8)
    let node = try Node(json: bytes.rawSpan)
    var printed: [UInt8] = []
    return [
        Timing("json, read 100 bytes", effort) { (try? Node(json: bytes.rawSpan))?.isEmpty == false },
        Timing("json, print 100 bytes", effort) {
            printed.removeAll(keepingCapacity: true)
            printed.append(json: node)
            return printed.count > 80
        },
    ]
}

func treeTimings(_ effort: MicroEffort) -> [Timing] {
    var tree = groups()
    var turn = 0
    var value: Int64 = 0
    func next() -> Path {
        turn = (turn + 1) & 4095
        return paths[turn]
    }
    return [
        Timing("tree, read one of 10 000 leaves", effort) { !tree[next()].isEmpty },
        Timing("tree, set one of 10 000 leaves", effort) {
            value += 1
            return !tree.set(.integer(value), at: next()).isEmpty
        },
        Timing("tree, set one under a snapshot", effort) {
            let snapshot = tree
            value += 1
            tree.set(.integer(value), at: next())
            return !snapshot.isEmpty
        },
    ]
}

func hashTimings(_ effort: MicroEffort) throws -> [Timing] {
    let message = try Node(json: Array(messageJSON.utf8).rawSpan)
    let group = groups()["groups" as Key]["group7" as Key]
    return [
        Timing("hash, 100 bytes", effort) { message.hash.utf8.count == 28 },
        Timing("hash, 100 children", effort / 100) { group.hash.utf8.count == 28 },
    ]
}

// MARK: Commands

func engineTimings(_ effort: MicroEffort) throws -> [Timing] {
    let message = try Node(json: Array(messageJSON.utf8).rawSpan)
    return [
        put("engine, set a number", effort, listening: []) { .integer($0) },
        put("engine, set 100 bytes", effort, listening: []) { number in
            var node = message
            node.set(.integer(number), at: Path(["at"]))
            return node
        },
        put("engine, set a number, one listens to it", effort, listening: [Path(["groups"])]) {
            .integer($0)
        },
    ]
}

/// Decides a put, encodes its journal record and commits it: the work of the database thread but the
/// response.
private func put(
    _ name: String, _ effort: MicroEffort, listening: [Path], _ value: (Int64) -> Node
) -> Timing {
    var engine = Engine(root: groups(), access: .open)
    for path in listening { _ = engine.execute(command(.listen(Listen(path: path)), session: 2)) }
    var (turn, number) = (0, Int64(0))
    var payloads: [UInt8] = []
    return Timing(name, effort) {
        turn = (turn + 1) & 4095
        number += 1
        let write = Write(Target(paths[turn]), Draft(value(number)))
        var delta = engine.decide(command(.put(write)))
        payloads.removeAll(keepingCapacity: true)
        var printed: PrintedNodes?
        for record in 0..<delta.recordCount(hadQueue: false) {
            _ = delta.append(record: record, by: .anonymous, to: &payloads, using: &printed)
        }
        let effects = engine.commit(delta)
        guard case .ok? = effects.result else { return false }
        return effects.pushes.count == listening.count && !payloads.isEmpty
    }
}

private func command(_ operation: Operation, session: UInt64 = 1) -> Command {
    Command(
        session: SessionID(session), credential: .anonymous, time: 1_760_000_000_000, operation: operation)
}

/// The same set in trees of very different sizes; nodes have 1000 children each.
func growthTimings(_ effort: MicroEffort) -> [Timing] {
    // A short run is a test: it needs no large tree.
    let sizes = effort.rounds < 1000 ? [1000] : [1000, 10_000, 100_000, 1_000_000, 10_000_000]
    return sizes.map { size in
        var engine = Engine(access: .open)
        for start in stride(from: 0, to: size, by: 1000) {
            let children = (0..<1000).map { Children.Entry(key: Key(index: $0), node: .integer(Int64($0))) }
            let write = Write(
                Target(Path(["groups", Key(index: start / 1000)])),
                Draft(.object(Children(ascending: children))))
            _ = engine.execute(command(.put(write)))
        }
        var random = SeededGenerator(seed: 1)
        let places = (0..<4096).map { _ in
            let leaf = Int.random(in: 0..<size, using: &random)
            return Path(["groups", Key(index: leaf / 1000), Key(index: leaf % 1000)])
        }
        var (turn, number) = (0, Int64(0))
        return Timing("engine, set one of \(size) leaves", effort) {
            turn = (turn + 1) & 4095
            number += 1
            let write = Write(Target(places[turn]), Draft(.integer(-number)))
            let (_, effects) = engine.execute(command(.put(write)))
            if case .ok? = effects.result { return true }
            return false
        }
    }
}

func fanOutTimings(_ effort: MicroEffort) -> [Timing] {
    func timing(_ name: String, listenerCount: Int, at path: (Int) -> Path) -> Timing {
        var engine = Engine(root: groups(), access: .open)
        for index in 0..<listenerCount {
            _ = engine.execute(command(.listen(Listen(path: path(index))), session: UInt64(index + 2)))
        }
        var number: Int64 = 0
        return Timing(name, effort / 10) {
            number += 1
            let write = Write(Target(paths[7]), Draft(.integer(number)))
            let (_, effects) = engine.execute(command(.put(write)))
            return effects.pushes.count == 1
        }
    }
    return [
        timing("fan-out, plan one push to 1000 listeners", listenerCount: 1000) { _ in paths[7].parent },
        timing("fan-out, 1 of 1000 listeners is meant", listenerCount: 1000) {
            $0 == 0 ? paths[7].parent : Path(["others", Key(index: $0)])
        },
    ]
}

// MARK: Bytes on the wire

private let putMessage =
    #"{"t":"d","d":{"r":7,"a":"p","b":{"p":"/groups/group7/member42","d":"\#(String(repeating: "x", count: 100))"}}}"#

func wireTimings(_ effort: MicroEffort) throws -> [Timing] {
    let put = Array(putMessage.utf8)
    let listen = Array(#"{"t":"d","d":{"r":8,"a":"q","b":{"p":"/groups/group7","h":""}}}"#.utf8)
    var printed: [UInt8] = []
    let path = paths[7]
    let node = Node.string(Text(String(repeating: "x", count: 100)))
    return [
        Timing("wire, read a put of 100 bytes", effort) { (try? ClientMessage(parsing: put.rawSpan)) != nil },
        Timing("wire, read a listen", effort) { (try? ClientMessage(parsing: listen.rawSpan)) != nil },
        Timing("wire, print an acknowledgement", effort) {
            printed.removeAll(keepingCapacity: true)
            printed.append(reply: 7, .ok)
            return printed.count > 20
        },
        Timing("wire, print a push of 100 bytes", effort) {
            printed.removeAll(keepingCapacity: true)
            printed.append(push: node, at: path)
            printed.append(pushTail: nil)
            return printed.count > 100
        },
    ]
}

func frameTimings(_ effort: MicroEffort) -> [Timing] {
    func read(_ name: String, _ byteCount: Int) -> Timing {
        var masked: [UInt8] = []
        masked.append(
            frame: .text, payload: [UInt8](repeating: 0x61, count: byteCount).rawSpan, maskingKey: 0x1234_5678
        )
        var reader = MessageReader(role: .server, messageByteLimit: 1 << 20, checksText: true)
        var window: [UInt8] = []
        return Timing(name, effort) {
            window.removeAll(keepingCapacity: true)
            window.append(contentsOf: masked)
            var offset = 0
            var span = window.mutableSpan
            var bytes = unsafe span.mutableBytes
            guard case .text(let payload)? = try? reader.next(&bytes, from: &offset) else { return false }
            return payload.count == byteCount
        }
    }
    var written: [UInt8] = []
    let payload = [UInt8](repeating: 0x61, count: 100)
    return [
        read("frames, read 100 masked bytes", 100),
        read("frames, read 4096 masked bytes", 4096),
        Timing("frames, write 100 bytes", effort) {
            written.removeAll(keepingCapacity: true)
            written.append(frame: .text, payload: payload.rawSpan)
            return written.count == 102
        },
    ]
}

func headTimings(_ effort: MicroEffort) throws -> [Timing] {
    let head = Array(
        "GET /groups/group7/member42.json?print=silent HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nAccept: */*\r\n\r\n"
            .utf8)
    return [
        Timing("http, read the head of a GET", effort) {
            var reader = RequestHeadReader()
            var offset = 0
            return (try? reader.read(head.rawSpan, from: &offset)) != nil
        }
    ]
}

// MARK: The journal

func journalTimings(_ effort: MicroEffort) throws -> [Timing] {
    let payload = [UInt8](repeating: 0x61, count: 150)
    var batch = JournalBatch()
    return [
        Timing("journal, an entry of 150 bytes into a batch", effort) {
            if batch.byteCount > 1 << 20 { batch = JournalBatch() }
            let savepoint = batch.savepoint
            batch.beginRecord()
            batch.bytes.append(payload.rawSpan)
            batch.endRecord(.delta, namespace: 1, timestamp: 1_760_000_000_000)
            batch.endEntry()
            return batch.byteCount - savepoint.byteCount > 150
        }
    ]
}
