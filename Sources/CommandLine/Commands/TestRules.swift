import ArgumentParser
import Foundation
import PandoEngine
import PandoFiles
import PandoRules

/// `pando test`
struct Test: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Runs tests of what will be served.", subcommands: [TestRules.self])
}

/// `pando test rules FILE CASES.json`
struct TestRules: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rules",
        abstract:
            "Evaluates rules for a table of cases, and lists the parts of the rules that no case covered.",
        discussion: """
            CASES is an object: "data" (what cases begin with), "now" (milliseconds) and "cases", an array of objects \
            with "name", "auth" (null, "admin" or the auth variable), one of "read", "write", "update" and "delete" \
            with a path, "value" for a write or an update, "query" for a read (the names of REST parameters), "expect" \
            ("allow" or "deny"), and perhaps "data" and "now" of its own. Comments are allowed.

            Exits 1 when a case fails; with --require-coverage also when a part of the rules was not tried.
            """)

    @Argument(help: "The rules.")
    var file: String

    @Argument(help: "The cases.")
    var cases: String

    @Flag(help: "Fail when a rule was never evaluated, never true or never false.")
    var requireCoverage = false

    @Flag(help: "Explain every denial, not only unexpected ones.")
    var explain = false

    func run() throws {
        let (rulesText, casesText) = (try read(file), try read(cases))
        let rules: Ruleset
        do throws(InvalidRules) {
            rules = try Ruleset(loading: rulesText)
        } catch {
            for problem in error.problems { printError("\(file):\(problem)") }
            throw Exit.badData
        }
        let table: [RulesCases.Case]
        do throws(RulesCases.Problem) {
            table = try RulesCases(casesText).cases
        } catch {
            printError("\(cases): \(error.text)")
            throw Exit.badData
        }
        let coverage = RuleCoverage(of: rules)
        var failureCount = 0
        for (index, row) in table.enumerated() {
            let denial = ask(row, rules, coverage)
            let isRight = (denial == nil) == row.isAllowed
            if !isRight { failureCount += 1 }
            try say("\(isRight ? "ok  " : "FAIL") \(index + 1). \(row.name)")
            if !isRight {
                try say("       \(row.summary): expected \(row.isAllowed ? "allow" : "deny"), got the other")
            }
            guard explain || !isRight, let denial else { continue }
            for line in denial.lines { try say("       \(line)") }
        }
        let gaps = coverage.lines
        try say(gaps.isEmpty ? "every rule was true in one case and false in another" : "not tried:")
        for line in gaps { try say("  \(file):\(line)") }
        try say("\(table.count - failureCount) passed, \(failureCount) failed")
        guard failureCount == 0, !requireCoverage || gaps.isEmpty else { throw Exit.checkFailed }
    }

    /// - Returns: Why it was denied; nil when it was allowed.
    private func ask(_ row: RulesCases.Case, _ rules: Ruleset, _ coverage: RuleCoverage) -> Denial? {
        let access = Access.loaded(rules)
        let engine = Engine(root: row.data, access: access)
        let command = Command(
            session: SessionID(0), credential: row.credential, time: row.milliseconds,
            operation: row.operation)
        let scope = RuleScope(credential: row.credential, milliseconds: row.milliseconds, root: row.data)
        switch engine.question(of: command) {
        case .read(let path, let query)?:
            let isAllowed = access.allowsRead(at: path, query: query, in: scope, recording: coverage)
            return isAllowed ? nil : access.explainRead(at: path, query: query, in: scope)
        case .write(let paths, let after)?:
            let isAllowed = access.allowsWrite(at: paths, after: after, in: scope, recording: coverage)
            return isAllowed ? nil : access.explainWrite(at: paths, after: after, in: scope)
        case nil: return nil
        }
    }

    private func read(_ path: String) throws -> [UInt8] {
        do {
            return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        } catch {
            printError("\(path): can't be read: \(error.fileReason)")
            throw Exit.badData
        }
    }

    private func say(_ line: String) throws {
        try writeLine(line)
    }
}
