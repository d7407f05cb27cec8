import PandoBytes

/// What a node may carry beside its value to be ordered by: a number or a string (realtime §8.2).
package enum Priority: Hashable, Sendable {
    /// Finite, never −0.
    case number(Double)
    case string(Text)

    package static func == (left: Priority, right: Priority) -> Bool {
        switch (left, right) {
        case (.number(let a), .number(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        default: false
        }
    }

    /// None, then numbers by value, then strings (§7.3). Negative, zero or positive.
    package static func compare(_ left: Priority?, _ right: Priority?) -> Int {
        switch (left, right) {
        case (nil, nil): 0
        case (nil, _?): -1
        case (_?, nil): 1
        case (.number(let a), .number(let b)): a < b ? -1 : a > b ? 1 : 0
        case (.number, .string): -1
        case (.string, .number): 1
        case (.string(let a), .string(let b)): Text.compare(a, b)
        }
    }
}
