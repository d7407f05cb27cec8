import PandoSettings
import Testing

@testable import PandoCommandLine

struct ServeOptionTests {
    private func option(_ name: String) throws -> ServeOption {
        try #require(ServeOption.all.first { $0.name == name })
    }

    @Test func namesAreUniqueAndPlain() {
        let names = ServeOption.all.map(\.name)
        #expect(Set(names).count == names.count)
        for name in names {
            #expect(name.utf8.allSatisfy { (0x61...0x7A).contains($0) || $0 == 0x2D }, "\(name)")
        }
    }

    @Test func everyNumberSaysItsDefault() {
        let withoutDefault = ServeOption.all.filter {
            $0.form != .flag && !$0.help.contains("(default: ")
        }
        #expect(
            withoutDefault.map(\.name) == [
                "listen", "trusted-proxy", "allow-origin", "tls-cert", "tls-key", "tls-dir", "tls-client-ca",
                "http-redirect-port",
                "data", "rules", "backup-to", "archive-to", "auth-secret-file", "jwks-file", "jwks-issuer",
                "jwks-audience",
                "oidc-issuer", "oidc-audience", "firebase-project",
            ])
    }

    /// The configuration's own defaults pass the checks of the rows.
    @Test(arguments: ServeOption.all)
    func ownDefaultIsAllowed(option: ServeOption) throws {
        guard let start = option.help.range(of: "(default: "), option.help.hasSuffix(")") else { return }
        let text = String(option.help[start.upperBound...].dropLast())
        guard !text.contains(" ") else { return }  // Words that stand for a computed default.
        var configuration = Configuration()
        try option.apply(text, to: &configuration)
    }

    @Test(
        arguments: [
            // option             value            message
            ("port", "many", "\"many\" is not a number"),
            ("port", "70000", "must be 0 to 65535"),
            ("host", "", "the value is empty"),
            ("dev", "yes", "\"yes\" is not true or false"),
            ("durability", "sometimes", "\"sometimes\" is not one of always, interval, none"),
            ("loops", "65", "must be 0 to 64"),
            ("loops", "-1", "must be 0 to 64"),
            (
                "keep-checkpoints", "1",
                "must be 2 to 1000: the second replaces the first when that is damaged"
            ),
            ("memory-limit", "1", "must be 0 (an eighth of the memory) or 67108864 to 1099511627776 bytes"),
            (
                "presence-timeout", "9",
                "must be 10 to 3600 seconds: with less, clients on slow networks would be disconnected"
            ),
            ("allow-origin", "localhost", "\"localhost\" is not scheme://host[:port]"),
            ("auth-clock-skew", "61", "must be 0 to 60 seconds"),
            ("checkpoint-interval", "31536001", "must be 0 to 31536000 seconds"),
            ("jwks-file", "", "the value is empty"),
            ("backup-every", "often", "\"often\" is not a time, such as 90s, 30m, 1h or 7d"),
            ("backup-every", "-1s", "\"-1s\" is not a time, such as 90s, 30m, 1h or 7d"),
            ("backup-every", "366d", "must be off, or 1 to 31536000 seconds"),
            (
                "backup-every", "9999999999999999999d",
                "\"9999999999999999999d\" is not a time, such as 90s, 30m, 1h or 7d"
            ),
            ("backup-every", "999999999999999999d", "must be off, or 1 to 31536000 seconds"),
            (
                "backup-keep", "24,7",
                "\"24,7\" is not three numbers of hours, days and weeks, such as 24,7,4, each up to 100000"
            ),
            ("backup-verify", "-1", "must be 0 to 1000000"),
            ("archive-keep", "1w", "\"1w\" is not a time, such as 90s, 30m, 1h or 7d"),
        ] as [(String, String, String)])
    func badValueIsRefused(name: String, text: String, message: String) throws {
        let option = try option(name)
        var configuration = Configuration()
        #expect {
            try option.apply(text, to: &configuration)
        } throws: {
            ($0 as? ServeOption.Problem)?.description == message
        }
    }

    @Test(
        arguments: [
            ("1s", 1), ("90", 90), ("90s", 90), ("30m", 1800), ("1h", 3600), ("7d", 604_800), ("off", 0),
            ("0", 0),
        ] as [(String, Int)])
    func times(text: String, seconds: Int) throws {
        var configuration = Configuration()
        try option("backup-every").apply(text, to: &configuration)
        #expect(configuration.backups.interval == .seconds(seconds))
    }

    @Test func valuesReachTheConfiguration() throws {
        var configuration = Configuration()
        for (name, text) in [
            ("host", "::1"), ("port", "1234"), ("data", "d"), ("durability", "none"), ("memory-limit", "0"),
            ("idle-timeout", "60"), ("presence-timeout", "3600"), ("log-level", "debug"),
            ("allow-origin", "http://a.example, http://b.example"), ("auth-secret-file", "one\ntwo words"),
        ] {
            try option(name).apply(text, to: &configuration)
        }
        #expect(configuration.host == "::1" && configuration.port == 1234)
        #expect(configuration.dataDirectory == "d" && configuration.storage.durability == .none)
        #expect(configuration.memoryByteLimit == 0 && configuration.idleTimeout == .seconds(60))
        #expect(configuration.presenceTimeout == .seconds(3600) && configuration.logLevel == .debug)
        #expect(configuration.allowedOrigins.count == 2 && configuration.identity.secrets.count == 2)
    }
}

struct ServeFlagsTests {
    private func given(_ arguments: [String]) throws -> [String: String] {
        try ServeFlags.parse(arguments).given
    }

    @Test func flagsAreReadByTheRowsNames() throws {
        #expect(try given([]).isEmpty)
        #expect(
            try given(["--port", "0", "--memory", "--in-flight-limit=1048576"])
                == ["port": "0", "memory": "true", "in-flight-limit": "1048576"])
    }

    @Test func repeatedOptionsAreJoinedByLineFeeds() throws {
        #expect(
            try given(["--auth-secret-file", "a b", "--auth-secret-file", "c"])
                == ["auth-secret-file": "a b\nc"])
    }

    /// A value of the wrong type is wrong usage (64); one out of range is a bad configuration (78), reported
    /// with all others.
    @Test(
        arguments: [
            (["--port", "many"], true), (["--port"], true), (["--nonsense"], true), (["--memory=1"], true),
            (["--durability", "sometimes"], true), (["--port", "70000"], false), (["--loops", "65"], false),
        ] as [([String], Bool)])
    func wrongUsage(arguments: [String], isWrongUsage: Bool) {
        let isRefused = (try? given(arguments)) == nil
        #expect(isRefused == isWrongUsage, "\(arguments)")
    }

    @Test func helpHasEveryOption() {
        let help = Serve.helpMessage(columns: 1000)
        for option in ServeOption.all {
            #expect(help.contains("--\(option.name)") && help.contains(option.help), "\(option.name)")
        }
    }
}
