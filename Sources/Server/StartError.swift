import PandoStorage

/// Why a server could not start, and the exit code that scripts get.
package enum StartError: Error, CustomStringConvertible {
    /// An address that does not resolve, or a port that is taken.
    case address(String)
    /// The process may open too few files for a server.
    case descriptors(String)
    /// The files of `--rules` hold no valid rules: every problem of them.
    case rules([String])
    /// The directory of `--public` cannot be served.
    case files(String)
    /// The files of TLS hold no usable certificates: every problem of them.
    case certificates([String])
    /// The data directory cannot be opened.
    case storage(StorageError)
    /// The machine has no descriptors, threads or memory left.
    case machine(String)

    /// At least one, a line for each.
    package var problems: [String] {
        switch self {
        case .rules(let problems), .certificates(let problems): problems
        case .storage(let error): [error.description]
        case .address(let text), .descriptors(let text), .files(let text), .machine(let text): [text]
        }
    }

    package var description: String { problems.joined(separator: "\n") }

    package var exitCode: Int32 {
        switch self {
        case .address, .descriptors, .files, .rules, .certificates: 78
        case .storage(let error): error.exitCode
        case .machine: 70
        }
    }
}
