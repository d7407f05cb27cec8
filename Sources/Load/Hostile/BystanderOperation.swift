/// What the bystander asks for.
enum BystanderOperation: Int, CaseIterable, Sendable {
    case set, echo, get, transaction, rest

    var name: String { "\(self)" }
}
