/// What reading the options again (SIGHUP) has brought.
package struct ReloadedOptions: Sendable {
    /// The options as they are now: a running server takes over those of ``Configuration/takeOver(from:)``.
    /// nil where there are problems: then everything stays as it was.
    package var configuration: Configuration?
    /// The names of the options that take effect now.
    package var changed: [String] = []
    /// The names of the options that have another value than at the start, and need a restart.
    package var needingRestart: [String] = []
    package var problems: [String] = []

    package init() {}
}

extension Configuration {
    /// Takes over what can change while a server runs. The options have the mark `reloads` in the table of
    /// the command line.
    package mutating func takeOver(from new: Configuration) {
        logLevel = new.logLevel
        logsAccess = new.logsAccess
        backups.retention = new.backups.retention
        drainTime = new.drainTime
        readByteLimit = new.readByteLimit
        headByteLimit = new.headByteLimit
        connectionLimit = new.connectionLimit
        addressConnectionLimit = new.addressConnectionLimit
        userConnectionLimit = new.userConnectionLimit
        writesPerSecond = new.writesPerSecond
        bytesPerSecond = new.bytesPerSecond
    }
}
