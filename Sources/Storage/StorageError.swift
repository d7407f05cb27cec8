import PandoJournal

/// Why a data directory or a backup could not be read or written, in a sentence for the operator.
package enum StorageError: Error, CustomStringConvertible {
    /// Another process uses the data directory, or it holds data that must not be replaced.
    case locked(String)
    /// The directory cannot be used as it is: no permission, nothing above it, not a directory.
    case unusable(String)
    /// The files hold data that cannot be read.
    case badData(String)
    /// Reading, writing or syncing failed, or the disk is full.
    case disk(String)
    /// The process has no free file descriptor or thread.
    case machine(String)

    package var description: String {
        switch self {
        case .locked(let text), .unusable(let text), .badData(let text), .disk(let text), .machine(let text):
            text
        }
    }

    /// The exit code of `pando` (after BSD's sysexits).
    package var exitCode: Int32 {
        switch self {
        case .locked, .unusable: 78
        case .badData: 65
        case .disk: 74
        case .machine: 70
        }
    }

    /// - Parameter option: The option that names the directory, for the message.
    package init(_ failure: DiskFailure, option: String? = nil) {
        let prefix = option.map { "\($0): " } ?? ""
        if failure.lacksDescriptors {
            self = .machine("\(prefix)\(failure)")
        } else if let advice = failure.advice {
            self = .unusable(prefix + advice)
        } else if failure.isOutOfSpace {
            self = .disk("\(prefix)\(failure). Free some space: \(Self.spaceAdvice)")
        } else {
            self = .disk("\(prefix)\(failure)")
        }
    }

    /// How much space a data directory needs.
    private static let spaceAdvice =
        "a data directory needs up to three times the size of a checkpoint (a backup is as large) and 700 MB, and one more checkpoint for an import with --data"

    package init(_ error: JournalError) {
        self =
            switch error {
            case .lockedByAnotherProcess, .notEmpty: .locked(error.description)
            case .corrupt(let problem) where problem.flaw.isReadFailure: .disk(error.description)
            case .corrupt, .entryTooLarge, .beforeJournal, .noTimelineLeft: .badData(error.description)
            case .disk(let failure): StorageError(failure)
            case .poisoned, .diskFull, .writtenDamaged, .nameNotDurable: .disk(error.description)
            }
    }
}

extension JournalProblem {
    /// Whether this is damage; false for a torn tail, which a crash leaves and the next start cuts off.
    package var isDamage: Bool {
        if case .tornTail = flaw { false } else { true }
    }
}
