/// A value with server values in it.
indirect enum Draft {
    case plain(Value)
    case increment(Int)
    case timestamp
    case object([(key: String, draft: Draft)])

    var json: String {
        switch self {
        case .plain(let value): value.json
        case .increment(let by): "{\".sv\":{\"increment\":\(by)}}"
        case .timestamp: "{\".sv\":\"timestamp\"}"
        case .object(let members):
            "{" + members.map { "\"\($0.key)\":\($0.draft.json)" }.joined(separator: ",") + "}"
        }
    }

    /// What is stored, where `current` is what it replaces.
    func resolved(_ current: Value, time: Int64) -> Value {
        switch self {
        case .plain(let value): value
        case .increment(let by): .number((current.number ?? 0) + Double(by))
        case .timestamp: .number(Double(time))
        case .object(let members):
            .object(
                Dictionary(
                    uniqueKeysWithValues: members.map {
                        ($0.key, $0.draft.resolved(current[$0.key], time: time))
                    }))
        }
    }
}
