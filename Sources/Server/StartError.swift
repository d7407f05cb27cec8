/// Why a server could not start, with the exit code that scripts are told.
package enum StartError: Error, CustomStringConvertible {
    /// The configuration asks for what there is not: an address that does not resolve, a port that is taken.
    case address(String)
    /// The process may have too few descriptors for a server.
    case descriptors(String)
    /// The files of `--rules` hold what are no rules.
    case rules([String])
    /// Another process serves the data directory.
    case locked(String)
    /// The data directory holds what cannot be read.
    case badData(String)
    /// The disk does not do its work.
    case disk(String)
    /// The machine has no descriptors or memory left.
    case machine(String)

    package var description: String {
        switch self {
        case .rules(let problems): problems.joined(separator: "\n")
        case .address(let text), .descriptors(let text), .locked(let text), .badData(let text),
            .disk(let text),
            .machine(let text):
            text
        }
    }

    package var exitCode: Int32 {
        switch self {
        case .address, .descriptors, .rules, .locked: 78
        case .badData: 65
        case .disk: 74
        case .machine: 70
        }
    }
}
