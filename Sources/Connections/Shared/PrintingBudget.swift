/// What the responses and event streams of one loop may print and compress in one tick. What is beyond it
/// goes on in turns, where a tick has as many as it has time for.
package struct PrintingBudget {
    private let fullByteCount: Int
    /// Bytes that may still be printed.
    private var byteCount: Int

    /// - Parameter byteCount: In one tick. To print takes 10 to 20 ns for each byte where the values are not
    ///   in the processor's cache: 0.7 to 1.3 ms for 64 KiB. Bytes that are compressed count twice.
    package init(byteCount: Int) {
        fullByteCount = byteCount
        self.byteCount = byteCount
    }

    /// No bound.
    package static let unlimited = PrintingBudget(byteCount: .max)

    /// Whether everything waits for its turn that may take long.
    var isUsedUp: Bool { byteCount <= 0 }

    /// Bytes were printed: how many was not known before.
    mutating func spend(_ printedByteCount: Int) { byteCount = max(0, byteCount - printedByteCount) }

    /// The next tick begins.
    package mutating func refill() { byteCount = fullByteCount }
}
