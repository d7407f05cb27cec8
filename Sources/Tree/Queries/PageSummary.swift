/// The numbers below one ref. An object, so that a ref is as small as without one.
final class PageSummary: Sendable {
    let numbers: NumberSummary

    init(_ numbers: NumberSummary) { self.numbers = numbers }

    /// Bytes that it takes, about: itself, and the digits of its sum.
    var byteCount: Int { 160 }
}
