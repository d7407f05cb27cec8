/// A position in a rules document, counted from 1.
package struct SourcePosition: Hashable, Sendable {
    /// Lines end with LF, CR LF or CR.
    package var line = 1
    /// In UTF-16 units, as editors count; a tab is one.
    package var column = 1

    package init(line: Int = 1, column: Int = 1) {
        self.line = line
        self.column = column
    }
}

extension SourcePosition: Comparable, CustomStringConvertible {
    package static func < (left: SourcePosition, right: SourcePosition) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }

    /// `line:column`, as problems begin.
    package var description: String { "\(line):\(column)" }
}
