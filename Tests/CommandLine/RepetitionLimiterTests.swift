import Testing

@testable import PandoCommandLine

@Suite struct RepetitionLimiterTests {
    @Test(
        arguments: [
            ("the disk is full: 12 bytes are left", "the disk is full: # bytes are left"),
            ("pando-20261123T184500.123Z-1-42", "pando-#T#.#Z-#-#"), ("", ""), ("no number", "no number"),
            ("journal-00000001-00000000000001af.log: gone", "journal-#-#.log: gone"),
            ("0123456789abcdef0123456789ABCDEF/a1b2c3d4", "#/#"), ("deadbeef a1 x12y3", "deadbeef a# x#y#"),
        ])
    func shapes(message: String, shape: String) { #expect(RepetitionLimiter.shape(of: message) == shape) }

    @Test func messagesOfOneKindAreLimitedPerMinute() {
        var limiter = RepetitionLimiter()
        let start = ContinuousClock.now
        var passed: [(second: Int, leftOut: Int)] = []
        for second in 0..<150 {
            if case .passes(let leftOut) = limiter.admit("failed \(second)", at: start + .seconds(second)) {
                passed.append((second, leftOut))
            }
        }
        #expect(passed.map(\.second) == [0, 1, 2, 3, 4, 60, 61, 62, 63, 64, 120, 121, 122, 123, 124])
        #expect(passed.map(\.leftOut) == [0, 0, 0, 0, 0, 55, 0, 0, 0, 0, 55, 0, 0, 0, 0])
        #expect(limiter.admit("something else", at: start + .seconds(150)) == .passes(leftOut: 0))
    }

    @Test func kindsAreBounded() {
        var limiter = RepetitionLimiter()
        let start = ContinuousClock.now
        for number in 0..<1000 {
            let name = String(repeating: "x", count: number % 500)
            _ = limiter.admit(name, at: start + .milliseconds(number))
        }
        #expect(limiter.count == RepetitionLimiter.kindLimit)
    }
}
