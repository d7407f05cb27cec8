import PandoRandom

extension [UInt8] {
    /// Text-like bytes: runs, repetitions and noise.
    init(sample count: Int, _ generator: inout SeededGenerator) {
        self = []
        while self.count < count {
            switch Int.random(in: 0..<3, using: &generator) {
            case 0: self += Array(repeating: 0x20, count: Int.random(in: 1...300, using: &generator))
            case 1: self += Array("\"key\":{\"name\":\"value\"},".utf8)
            default: self += (0..<50).map { _ in UInt8.random(in: 0...255, using: &generator) }
            }
        }
        removeLast(self.count - count)
    }

    /// The bytes in pieces of random sizes, some of them empty.
    func pieces(_ generator: inout SeededGenerator, atMost size: Int) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var start = 0
        while start < count {
            let end = Swift.min(count, start + Int.random(in: 0...size, using: &generator))
            pieces.append(Array(self[start..<end]))
            start = end
        }
        return pieces
    }
}
