/// Prints the problems, or the line that there are none.
/// - Throws: ``Exit/checkFailed`` when there is one.
func conclude(_ problems: [String], otherwise success: String) throws {
    for line in problems.isEmpty ? [success] : problems { try writeLine(line) }
    guard problems.isEmpty else { throw Exit.checkFailed }
}
