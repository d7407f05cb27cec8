import PandoBytes
import PandoTree
import Testing

@testable import PandoREST

private func text(_ event: StreamEvent, _ form: JSONForm = JSONForm()) -> String {
    var bytes: [UInt8] = []
    bytes.append(event: event, form)
    return String(decoding: bytes, as: UTF8.self)
}

/// rest §8.1, §14 #37, #38.
@Test(
    arguments: [
        (.put(.root, .empty), "event: put\ndata: {\"path\":\"/\",\"data\":null}\n\n"),
        (.put("k", .integer(1)), "event: put\ndata: {\"path\":\"/k\",\"data\":1}\n\n"),
        (.put("a/b\"", .string("x\ny")), "event: put\ndata: {\"path\":\"/a/b\\\"\",\"data\":\"x\\ny\"}\n\n"),
        (
            .patch(.root, [.init(key: "k", node: .integer(2)), .init(key: "m", node: .empty)]),
            "event: patch\ndata: {\"path\":\"/\",\"data\":{\"k\":2,\"m\":null}}\n\n"
        ),
        (.keepAlive, "event: keep-alive\ndata: null\n\n"),
        (.cancel(nil), "event: cancel\ndata: null\n\n"),
        (.cancel("Permission denied"), "event: cancel\ndata: \"Permission denied\"\n\n"),
        (.authRevoked, "event: auth_revoked\ndata: credential is no longer valid\n\n"),
    ] as [(StreamEvent, String)])
func eventsAreTwoLines(event: StreamEvent, spelled: String) {
    #expect(text(event) == spelled)
}

@Test func eventsHaveTwoLines() {
    for seed in 0..<100 as Range<UInt64> {
        var maker = TreeMaker(seed: seed)
        var form = ResponseForm()
        form.print = .pretty
        form.isExport = maker.generator.one(in: 2)
        let lines = text(.put("x", maker.tree()), JSONForm(streaming: form)).split(
            separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 4 && lines[2].isEmpty && lines[3].isEmpty)
    }
}

/// rest §8.2.
@Test(
    arguments: [
        // base   entries                      events
        ("", [("k", 2), ("m", 3)], ["patch / k,m"]),
        ("a", [("k", 2), ("m", nil)], ["patch /a k,m"]),
        ("", [("a/k", 2), ("a/m", 3)], ["patch /a k,m"]),
        ("x", [("a/b/k", 2), ("a/b/m", 3)], ["patch /x/a/b k,m"]),
        ("", [("a/k", 2), ("b/m", nil)], ["put /a/k 2", "put /b/m null"]),
        ("", [("a", 2), ("b/m", 3)], ["put /a 2", "put /b/m 3"]),
        ("x", [("a/b", 1), ("a/c/d", 2)], ["put /x/a/b 1", "put /x/a/c/d 2"]),
        ("x", [("k", 2)], ["patch /x k"]),
        ("x", [("a/k", 2)], ["put /x/a/k 2"]),
        ("x", [("", 2)], ["put /x 2"]),
        ("x", [], []),
    ] as [(String, [(String, Int64?)], [String])])
func oneMergeIsOnePatchOrSeveralPuts(base: String, entries: [(String, Int64?)], expected: [String]) {
    let events = StreamEvent.events(
        merging: entries.map { (Path(trusted: $0.0), $0.1.map { .integer($0) } ?? .empty) },
        at: Path(trusted: base))
    #expect(events.map(summary) == expected)
}

@Test func removedChildrenOfQueryComeFirst() {
    let events = StreamEvent.events(
        merging: [("new", .integer(1)), ("gone", .empty), ("also", .integer(2))], at: .root, isQuery: true)
    #expect(events.map(summary) == ["put /gone null", "put /new 1", "put /also 2"])
}

private func summary(_ event: StreamEvent) -> String {
    switch event {
    case .put(let path, let node): "put \(path) \(node)"
    case .patch(let path, let entries): "patch \(path) \(entries.map(\.key.string).joined(separator: ","))"
    default: "?"
    }
}

/// A client that applies the events in their order has the data after the write.
@Test func eventsLeadToTheSameTree() {
    for seed in 0..<300 as Range<UInt64> {
        var maker = TreeMaker(seed: seed)
        var entries: [(path: Path, node: Node)] = []
        for _ in 0..<Int.random(in: 1...4, using: &maker.generator) {
            let keys = (0..<Int.random(in: 1...3, using: &maker.generator)).map { _ in
                Key(index: Int.random(in: 0...2, using: &maker.generator))
            }
            let path = Path(keys)
            guard !entries.contains(where: { $0.path.contains(path) || path.contains($0.path) }) else {
                continue
            }
            entries.append((path, maker.generator.one(in: 4) ? .empty : maker.tree(depth: 2)))
        }
        let before = maker.tree()
        var (written, followed) = (before, before)
        for entry in entries { written.set(entry.node, at: Path("b").appending(entry.path.keys)) }
        for event in StreamEvent.events(merging: entries, at: "b", isQuery: maker.generator.one(in: 3)) {
            switch event {
            case .put(let path, let node): followed.set(node, at: path)
            case .patch(let path, let entries):
                for entry in entries { followed.set(entry.node, at: path.appending(entry.key)) }
            default: Issue.record("no data")
            }
        }
        #expect(followed == written)
    }
}
