import PandoTree

/// The limits of rules. They bound what an upload and an evaluation of rules can cost.
package enum RulesLimits {
    /// Bytes of the document: the documented ceiling (rules §1.2).
    package static let sourceByteCount = 262_144
    /// Keys from the root to the deepest node with rules: a path is no deeper, so nothing below could ever
    /// match. It bounds the recursion of everything that walks rules.
    package static let pathDepth = Limits.pathDepth
    /// Problems that are reported at once, so that the response stays small.
    package static let problemCount = 200
    /// The nesting of expressions in one rule (§1.2). It bounds the recursion of everything that visits one.
    package static let expressionDepth = 200
    /// Terms of all expressions of a document together (§1.2).
    package static let expressionNodeCount = 20_000
    /// UTF-8 bytes of a pattern (§9).
    package static let patternByteCount = 2048
    /// States of a pattern's automaton, repetitions written out (§9).
    package static let patternStateCount = 10_000
    /// States of all patterns of a document together; our own limit, which bounds the memory of rules to a
    /// few megabytes.
    package static let patternInstructionCount = 100_000
    /// Steps of one match of a pattern without a table: some 50 ms, reached by a text of 1 kB at the
    /// earliest. Our own limit, since clients choose the texts.
    package static let patternStepCount = 10_000_000
    /// UTF-8 bytes of a text that a rule computes: the limit of texts in data.
    package static let textByteCount = Limits.stringByteCount
    /// Steps of about a nanosecond for one write with all of its paths: half a second of another thread, or
    /// five million short rules. Our own limit: a write of 16 MB, the most that clients send, stays below it
    /// with a few rules for each of its texts.
    package static let requestStepCount = 1 << 29
    /// Steps of a write on the thread that serves all clients of a database: some millisecond. A write that
    /// takes more is judged by another thread.
    package static let stepsAtOnce = 1 << 20
    /// Steps of a read there: some 17 ms, enough to search the longest text once. A read that takes more is
    /// denied.
    package static let readStepCount = 1 << 24
    /// Steps for all onDisconnect writes of a session together: a second.
    package static let queueStepCount = 1 << 30
    /// Characters of a name that are quoted in a problem.
    static let quotedCharacterCount = 64
}
