import ArgumentParser

/// The exit codes of `pando`, after BSD's `sysexits.h`.
enum Exit {
    static let checkFailed = ExitCode(1)
    static let badData = ExitCode(65)
    static let ourFault = ExitCode(70)
    static let diskFailure = ExitCode(74)
    static let badConfiguration = ExitCode(78)
}
