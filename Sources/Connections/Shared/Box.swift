/// A large value that most sessions do not have: a word where there is none.
final class Box<Value> {
    let value: Value

    init(_ value: Value) { self.value = value }
}
