import ArgumentParser
import PandoServer
import PandoStorage

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
