import ArgumentParser
import PandoStorage

extension Exit {
    /// Prints the error.
    /// - Returns: The exit code for it.
    static func reporting(_ error: StorageError) -> ExitCode {
        printError(error.description)
        return ExitCode(error.exitCode)
    }
}
