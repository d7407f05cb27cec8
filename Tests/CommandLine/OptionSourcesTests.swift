import PandoSettings
import Testing

@testable import PandoCommandLine

struct OptionSourcesTests {
    /// What flags, the environment and a file make together.
    private func merge(
        flags: [String: String] = [:], environment: [String: String] = [:], file: String = "{}"
    ) -> (configuration: Configuration, problems: [String]) {
        var sources = OptionSources(flags: flags, environment: environment)
        var problems: [String] = []
        sources.readFile(Array(file.utf8), &problems)
        return (sources.configuration(&problems), problems)
    }

    @Test(
        arguments: [
            // flag   environment  file    result
            ("1", "2", "3", 1),
            (nil, "2", "3", 2),
            (nil, nil, "3", 3),
            (nil, nil, nil, 9000),
            ("1", nil, "3", 1),
        ] as [(String?, String?, String?, UInt16)])
    func strongestSourceWins(flag: String?, variable: String?, key: String?, port: UInt16) {
        let merged = merge(
            flags: ["memory": "true"].merging(flag.map { ["port": $0] } ?? [:]) { $1 },
            environment: variable.map { ["PANDO_PORT": $0] } ?? [:],
            file: key.map { "{\"port\":\($0)}" } ?? "{}")
        #expect(merged.problems.isEmpty)
        #expect(merged.configuration.port == port)
    }

    /// The reader forms the names of variables by rules of its own.
    @Test(arguments: ServeOption.all)
    func variableIsReadByTheNameThatIsDocumented(option: ServeOption) {
        let merged = merge(environment: [option.environmentName: "\u{1}"])
        let named = merged.problems.contains { $0.hasPrefix("\(option.environmentName): ") }
        // A directory or file, and names of keys and issuers, may be any text.
        let takesAnyText =
            [
                "host", "public", "data", "rules", "auth-secret-file", "firebase-project", "backup-to",
                "archive-to",
            ].contains(option.name)
            || ["tls-", "jwks-", "oidc-"].contains { option.name.hasPrefix($0) }
        #expect(named != takesAnyText, "\(option.environmentName): \(merged.problems)")
    }

    @Test(
        arguments: [
            ("PANDO_NONSENSE", true), ("PANDO_", true), ("PANDOCONFIG", false), ("PANDO_CONFIG", false),
            ("PANDO_AUTH_SECRET", false), ("PANDO_TOKEN", false), ("PANDO_LOAD_TOKEN", false),
        ] as [(String, Bool)])
    func unknownVariableIsAWarning(name: String, isUnknown: Bool) {
        let environment = [name: String(repeating: "ab", count: 32)]
        #expect(merge(flags: ["memory": "true"], environment: environment).problems.isEmpty)
        let warnings = OptionSources(environment: environment).warnings
        #expect(warnings == (isUnknown ? ["\(name): not an option of pando serve; ignored"] : []))
    }

    @Test(
        arguments: [
            (#"{"nonsense":1}"#, #"configuration file: "nonsense" is not an option"#),
            (#"{"port":1.5}"#, #"configuration file: "port" must be a text, a whole number or a boolean"#),
            (#"{"port":[1]}"#, #"configuration file: "port" must be a text, a whole number or a boolean"#),
            (#"{"port":"x"}"#, #""port" in the configuration file: "x" is not a number"#),
            (#"{"loops":65}"#, #""loops" in the configuration file: must be 0 to 64"#),
            (#"{"auth":1}"#, #"configuration file: "auth" must be an object"#),
            ("[1]", "configuration file: must be a JSON object"),
            (#"{"port":1,"port":2}"#, #"configuration file: has "port" twice"#),
            (#"{"auth":{"secrets":[{"file":"a","file":"b"}]}}"#, #"configuration file: has "file" twice"#),
            (
                #"{"auth":"# + String(repeating: "[", count: 40) + String(repeating: "]", count: 40) + "}",
                "configuration file: is nested too deeply"
            ),
        ] as [(String, String)])
    func badFileIsReported(file: String, problem: String) {
        #expect(merge(flags: ["memory": "true"], file: file).problems.contains(problem))
    }

    @Test func allProblemsAreReportedAtOnceInTheWordsThatWereTyped() {
        let problems = merge(
            flags: ["loops": "65"], environment: ["PANDO_IDLE_TIMEOUT": "1"], file: #"{"chunk-limit":0}"#
        ).problems
        #expect(problems.count == 4, "\(problems)")
        #expect(problems.contains { $0.hasPrefix("--loops: ") })
        #expect(problems.contains { $0.hasPrefix("PANDO_IDLE_TIMEOUT: ") })
        #expect(problems.contains { $0.hasPrefix("\"chunk-limit\" in the configuration file: ") })
        #expect(problems.contains { $0.hasPrefix("--data: ") })
    }

    private static let start =
        #"{"log-level":"info","port":1,"auth":{"secrets":[{"file":"a"}],"revoked_before":{"u":1}}}"#

    @Test(
        arguments: [
            // file   take effect at once   need a restart
            (start, [], []),
            (#"{"log-level":"debug","port":1,"auth":{"secrets":[{"file":"a"}]}}"#, ["log-level"], []),
            (
                #"{"drain-time":3,"port":2,"auth":{"secrets":[{"file":"b"}]}}"#, ["drain-time", "log-level"],
                ["auth", "port"]
            ),
            (#"{"log-level":"info","port":1}"#, [], ["auth"]),
            (
                #"{"max-connections-per-address":1,"max-connections-per-user":1,"max-connections":9,"loops":1}"#,
                ["log-level", "max-connections", "max-connections-per-address", "max-connections-per-user"],
                ["auth", "loops", "port"]
            ),
        ] as [(String, [String], [String])])
    func differences(file: String, atOnce: [String], later: [String]) {
        var problems: [String] = []
        var (old, new) = (OptionSources(flags: ["memory": "true"]), OptionSources(flags: ["memory": "true"]))
        old.readFile(Array(Self.start.utf8), &problems)
        new.readFile(Array(file.utf8), &problems)
        let found = new.differences(from: old)
        #expect(found.filter(\.reloads).map(\.name).sorted() == atOnce)
        #expect(found.filter { !$0.reloads }.map(\.name).sorted() == later)
        #expect(problems.isEmpty)
    }

    @Test func flagHidesAChangeOfTheFile() {
        var problems: [String] = []
        let old = OptionSources(flags: ["log-level": "info"])
        var new = old
        new.readFile(Array(#"{"log-level":"debug"}"#.utf8), &problems)
        #expect(new.differences(from: old).isEmpty)
    }

    @Test func listsInTheFile() {
        let configuration = merge(
            flags: ["memory": "true", "dev": "true"],
            file: #"{"allow-origin":["http://a.example","http://b.example"],"auth-secret-file":"s"}"#
        ).configuration
        #expect(configuration.allowedOrigins.count == 2 && configuration.identity.secrets.count == 1)
    }

    @Test func memoryFlagOverridesADirectoryFromElsewhere() {
        let merged = merge(flags: ["memory": "true"], environment: ["PANDO_DATA": "d"])
        #expect(merged.problems.isEmpty && merged.configuration.dataDirectory == nil)
    }

    @Test func dataFlagOverridesMemoryFromElsewhere() {
        let merged = merge(flags: ["data": "d"], file: #"{"memory":true}"#)
        #expect(merged.problems.isEmpty && !merged.configuration.isMemoryOnly)
    }

    @Test func memoryAndDataFlagsContradictEachOther() {
        #expect(merge(flags: ["data": "d", "memory": "true"]).problems.count == 1)
    }
}
