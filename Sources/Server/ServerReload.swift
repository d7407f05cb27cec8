import Logging
import PandoDatabase
import PandoIdentity
import PandoLoops
import PandoReactor
import PandoRules
import PandoSettings
import PandoStaticFiles
import PandoTLS

/// What a server reads again while it runs: rules and files that it serves on SIGHUP, keys and certificates
/// also when their files change. Confined to the main thread.
final class ServerReload {
    private let configuration: Configuration
    private let main: EventLoop
    private let authenticator: Authenticator
    /// nil without TLS.
    private let certificates: CertificateStore?
    /// nil without TLS, and before ``watchFiles()``.
    private var watcher: CertificateWatcher?
    private let site: StaticSiteHolder
    private let database: DatabaseExecutor
    private let logger: Logger
    /// Of the files of `--rules`, as they were last read.
    private(set) var rulesets: [String: Ruleset] = [:]

    /// The time between two checks of the key files while no token is verified.
    private static let keyInterval: Duration = .seconds(5)

    /// Reads the rules for the first time.
    /// - Throws: ``StartError/rules(_:)``.
    init(_ resources: LoopResources, main: EventLoop) throws(StartError) {
        configuration = resources.configuration
        authenticator = resources.authenticator
        certificates = resources.certificates
        site = resources.site
        database = resources.database
        logger = resources.log.messages
        self.main = main
        if let path = configuration.rulesPath {
            let files = RulesFiles(at: path)
            guard files.problems.isEmpty else { throw .rules(files.problems) }
            rulesets = files.rulesets
        }
    }

    /// Begins to look whether files have changed.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    func watchFiles() throws(SocketError) {
        watchKeys()
        if let certificates { watcher = try CertificateWatcher(certificates, logger) }
    }

    /// Ends the thread that reads certificates.
    func stop() { watcher?.stop() }

    /// SIGHUP: reads everything again. What has problems stays as it was, and the log says so.
    /// - Parameter done: Called on the main thread.
    func reloadAll(_ done: @escaping @Sendable () -> Void) {
        // The rest of what is read again is read on this thread, before it handles the message that all is
        // done.
        let others = CountdownLatch(count: 2) { [main] in main.submit(done) }
        Task.detached { [authenticator] in
            await authenticator.reload()
            others.countDown()
        }
        if let watcher { watcher.reload { others.countDown() } } else { others.countDown() }
        loadRulesAgain()
        loadSiteAgain()
    }

    private func loadRulesAgain() {
        guard let path = configuration.rulesPath else {
            return logger.notice("SIGHUP: without --rules there are no rules to read again")
        }
        let files = RulesFiles(at: path, replacing: rulesets)
        for problem in files.problems { logger.error("SIGHUP: \(problem)") }
        let changed = files.rulesets.keys.filter { files.rulesets[$0]?.source != rulesets[$0]?.source }
            .sorted()
        rulesets = files.rulesets
        database.post(.rules(rulesets))
        logger.notice(
            "SIGHUP: rules read again; \(changed.isEmpty ? "none" : changed.joined(separator: ", ")) changed\(files.problems.isEmpty ? "" : "; for each file with a problem (see above) the previous rules stay in force")"
        )
    }

    private func loadSiteAgain() {
        do throws(StartError) {
            site.site = try Server.loadSite(configuration, logger)
        } catch {
            logger.error("SIGHUP: \(error); the files stay as they were")
        }
    }

    /// Removing a key must end its sessions also while no new client signs in.
    private func watchKeys() {
        main.schedule(after: Self.keyInterval) { [self] in
            Task.detached { [authenticator] in await authenticator.reloadIfChanged() }
            watchKeys()
        }
    }
}
