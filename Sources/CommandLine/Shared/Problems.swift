/// Prints the problems, or the line that there are none.
/// - Throws: ``Exit/checkFailed`` when there is one.
func conclude(_ problems: [String], otherwise success: String) throws {
    let lines = problems.isEmpty ? [success] : problems
    try writeOutput(Array((lines.joined(separator: "\n") + "\n").utf8))
    guard problems.isEmpty else { throw Exit.checkFailed }
}
