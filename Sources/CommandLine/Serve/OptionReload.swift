import PandoSettings
import Synchronization

/// Reads the configuration file again while the server runs (SIGHUP), and says what has changed.
final class OptionReload: Sendable {
    private let path: String
    private let atStart: OptionSources
    /// What the server has taken over.
    private let current: Mutex<OptionSources>

    init(of path: String, _ sources: OptionSources) {
        self.path = path
        atStart = sources
        current = Mutex(sources)
    }

    /// Options that need a restart are compared with those of the start, so that each reading names all of
    /// them.
    func read() -> ReloadedOptions {
        var result = ReloadedOptions()
        // Flags and variables of a process do not change.
        var sources = OptionSources(flags: atStart.flags, environment: atStart.environment)
        do throws(InputFile.Failure) {
            sources.readFile(try InputFile.content(of: path), &result.problems)
        } catch {
            result.problems.append("--config: \(error.text)")
            return result
        }
        let configuration = sources.configuration(&result.problems)
        guard result.problems.isEmpty else { return result }
        result.configuration = configuration
        result.needingRestart = sources.differences(from: atStart).filter { !$0.reloads }.map(\.name)
        current.withLock { current in
            result.changed = sources.differences(from: current).filter(\.reloads).map(\.name)
            current = sources
        }
        return result
    }
}
