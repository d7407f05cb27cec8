import PandoBytes
import PandoTree

/// The form of a printed value.
package struct JSONForm: Equatable, Sendable {
    package var isPretty = false
    /// Prints `.value` and `.priority`. A node with a priority is then never an array.
    package var hasPriorities = false
    /// Prints objects whose keys are indexes as arrays (§3.1).
    package var hasArrays = true
    /// Prints the children of the root as `true` (§4.1).
    package var isShallow = false
    /// Escapes U+2028 and U+2029, which end a line inside a string before ECMAScript 2019 (§3.3).
    package var isScript = false

    package init() {}

    /// For the response to a read.
    package init(reading form: ResponseForm) {
        isPretty = form.print == .pretty
        hasPriorities = form.isExport
        hasArrays = !form.isExport && !form.isShallow
        isShallow = form.isShallow
        isScript = form.callback != nil
    }

    /// For the response to a write: what was written, with its priorities (§2).
    package init(writing form: ResponseForm) {
        isPretty = form.print == .pretty
        hasPriorities = true
    }

    /// For an event stream: always on one line (§8.1).
    package init(streaming form: ResponseForm) {
        hasPriorities = form.isExport
        hasArrays = !form.isExport
    }
}

extension JSONForm {
    /// The whole text of a small leaf without a priority, as most values are; nil for any other node.
    func text(ofSmall node: Node) -> [UInt8]? {
        switch node {
        case .empty, .boolean, .integer, .double: break
        case .string(let text) where text.utf8Count <= Self.smallByteCount: break
        case .string, .object, .prioritized: return nil
        }
        var text: [UInt8] = []
        // Quotes, and the longest number.
        text.reserveCapacity(Self.smallByteCount + 64)
        text.append(json: node)
        if isPretty { text.append(UInt8(ascii: "\n")) }
        return text
    }

    private static let smallByteCount = 192
}
