import PandoBytes

/// A node's priority, by which it can be ordered: a number or a string (realtime §8.2).
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

    /// Negative, zero or positive. The order is: none, numbers by value, strings (§7.3).
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
