import ArgumentParser
import PandoServer
import PandoStorage

/// The exit codes of `pando`, after BSD's `sysexits.h`.
enum Exit {
    static let checkFailed = ExitCode(1)
    static let badData = ExitCode(65)
    static let ourFault = ExitCode(70)
    static let diskFailure = ExitCode(74)
    static let badConfiguration = ExitCode(78)
}

extension Exit {
    /// Prints the error.
    /// - Returns: The exit code for it.
    static func reporting(_ error: StartError) -> ExitCode {
        printError(error.description)
        return ExitCode(error.exitCode)
    }

    /// Prints the error.
    /// - Returns: The exit code for it.
    static func reporting(_ error: StorageError) -> ExitCode {
        printError(error.description)
        return ExitCode(error.exitCode)
    }
}
