import PandoBytes
import PandoEngine
import PandoREST
import PandoStorage
import PandoTree

extension RESTReport {
    /// About the bytes of memory of a node beside its key and text, while it was put together write by write.
    private static let bytesPerNode = 100

    /// The response to a request for a history (rest §10.1).
    package init(_ answer: Result<HistoryResult, HistoryFailure>, to question: HistoryQuestion) {
        switch answer {
        case .success(let answer):
            var prefix: [UInt8] = []
            prefix.append("{\"at\":")
            prefix.append(decimal: question.time)
            prefix.append(since: answer.since)
            if answer.value != nil { prefix.append(",\"value\":") }
            var suffix: [UInt8] = []
            suffix.append(question.part == .rules ? ",\"rules\":[" : ",\"writes\":[")
            for (index, write) in answer.writes.enumerated() {
                if index > 0 { suffix.append(",") }
                suffix.append(write)
            }
            for (index, rules) in answer.rules.enumerated() {
                if index > 0 { suffix.append(",") }
                suffix.append(rules)
            }
            suffix.append(answer.hasMore ? "],\"more\":true}" : "],\"more\":false}")
            if let value = answer.value {
                self.init(prefix: prefix, node: value, suffix: suffix)
                // Read for this report alone.
                var size = TreeSize()
                value.count(into: &size)
                nodeByteCount = size.byteCount + size.nodeCount * Self.bytesPerNode
            } else {
                self.init(prefix: prefix + suffix)
            }
        case .failure(.beyondReach(let since)):
            var members: [UInt8] = []
            members.append(since: since)
            self.init(
                .gone,
                error:
                    "The journal does not reach back to that time; \"since\" is the earliest that it reaches.",
                members: members)
        case .failure(.valueTooLarge):
            self.init(
                .tooLarge,
                error:
                    "The value at this path has, or had before that time, more than \(HistoryLimits.valueByteCount) bytes: ask for a path below it."
            )
        case .failure(.busy), .failure(.cancelled):
            self.init(.unavailable, error: "Too many histories are being read; try again in a moment.")
        case .failure(.unreadable(let problem)):
            self.init(.failed, error: "The history cannot be read: \(problem)")
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(since time: Int64?) {
        append(",\"since\":")
        if let time { append(decimal: time) } else { append("null") }
    }

    /// Appends a member; null for an empty name.
    private mutating func append(name: String, as member: StaticString) {
        append(member)
        if name.isEmpty { append("null") } else { append(json: Text(name)) }
    }

    fileprivate mutating func append(_ rules: PublishedRules) {
        append("{\"time\":")
        append(decimal: rules.time)
        append(",\"sequence\":")
        append(decimal: rules.sequence.rawValue)
        append(name: rules.publication.uid, as: ",\"uid\":")
        append(name: rules.publication.keyID, as: ",\"key\":")
        append(",\"source\":")
        append(json: Text(String(decoding: rules.publication.source, as: UTF8.self)))
        append("}")
    }

    fileprivate mutating func append(_ write: HistoryWrite) {
        append("{\"time\":")
        append(decimal: write.time)
        append(",\"sequence\":")
        append(decimal: write.sequence.rawValue)
        append(",\"uid\":")
        if case .user(let uid)? = write.touch.authorship?.writer { append(json: uid) } else { append("null") }
        append(",\"by\":\"")
        append(write.touch.authorship?.writer.kind ?? "unknown")
        append("\"")
        if write.touch.authorship?.isOnDisconnect == true { append(",\"onDisconnect\":true") }
        append(",\"path\":")
        append(json: Text("/" + write.touch.first.wireText))
        append(",\"count\":")
        append(decimal: UInt64(write.touch.count))
        append("}")
    }
}

extension Writer {
    /// As reports for administrators name it.
    var kind: StaticString {
        switch self {
        case .anonymous: "anonymous"
        case .administrator: "administrator"
        case .user, .withoutUID: "user"
        }
    }
}
