import PandoREST

/// An event of an event stream, as its bytes (rest §8).
struct SentEvent: Equatable {
    let bytes: [UInt8]

    init(bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    /// What the databases have released.
    init(_ event: StreamEvent) {
        var bytes: [UInt8] = []
        bytes.append(event: event)
        self.bytes = bytes
    }

    /// The value of its line with this name; none where there is no such line.
    private func line(_ name: String) -> Substring {
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where line.hasPrefix(name) {
            return line.dropFirst(name.count)
        }
        return ""
    }

    var name: Substring { line("event: ") }

    /// The changes of a `put` or `patch`, relative to the root of the stream; nil for other events.
    var changes: [(path: [String], value: Value)]? {
        guard name == "put" || name == "patch", let data = try? Value(json: Array(line("data: ").utf8)),
            let path = data["path"].text?.split(separator: "/").map(String.init)
        else { return nil }
        guard name == "patch" else { return [(path, data["data"].pruned)] }
        return data["data"].members.map { (path + [$0.key], $0.value.pruned) }
    }
}
