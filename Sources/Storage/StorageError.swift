import PandoJournal

/// Why a data directory or a backup could not be read or written, in a sentence for the operator.
package enum StorageError: Error, CustomStringConvertible {
    /// Another process uses the data directory, or it holds data that must not be replaced.
    case locked(String)
    /// The files hold data that cannot be read.
    case badData(String)
    /// Reading, writing or syncing failed, or the disk is full.
    case disk(String)
    /// The process has no free file descriptor or thread.
    case machine(String)

    package var description: String {
        switch self {
        case .locked(let text), .badData(let text), .disk(let text), .machine(let text): text
        }
    }

    /// The exit code of `pando` (after BSD's sysexits).
    package var exitCode: Int32 {
        switch self {
        case .locked: 78
        case .badData: 65
        case .disk: 74
        case .machine: 70
        }
    }

    init(_ error: JournalError) {
        self =
            switch error {
            case .lockedByAnotherProcess, .notEmpty: .locked(error.description)
            case .corrupt, .entryTooLarge, .beforeJournal, .noTimelineLeft: .badData(error.description)
            case .disk(let failure) where failure.lacksDescriptors: .machine(error.description)
            case .disk, .poisoned, .diskFull: .disk(error.description)
            }
    }
}

extension JournalProblem {
    /// Whether this is damage; false for a torn tail, which a crash leaves and the next start cuts off.
    package var isDamage: Bool {
        if case .tornTail = flaw { false } else { true }
    }
}
