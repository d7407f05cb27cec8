import PandoRandom

extension SeededGenerator {
    /// So many of a hundred times true.
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    /// - Precondition: There is something to pick.
    mutating func pick<Choice>(_ choices: [Choice]) -> Choice {
        choices[Int.random(in: 0..<choices.count, using: &self)]
    }

    /// All, one, or any number of so many.
    mutating func part(of count: Int) -> Int {
        guard count > 0 else { return 0 }
        return switch Int.random(in: 0..<4, using: &self) {
        case 0: count
        case 1: 1
        default: Int.random(in: 0...count, using: &self)
        }
    }
}
