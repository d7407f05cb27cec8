import Foundation
import PandoLog

/// Arguments as an error quotes them. Only these may hold line feeds that are not the message's own: other
/// control characters are escaped in each of its lines.
enum QuotedArguments {
    /// The message with the line feeds of arguments escaped. An error quotes an argument, or what stands
    /// before or behind its `=`, alone or as a part of a longer text.
    static func escaped(in message: String, of arguments: some Sequence<String>) -> String {
        let parts = arguments.flatMap { argument in
            [argument] + argument.split(separator: "=", maxSplits: 1).map(String.init)
        }
        var message = message
        // The longest first: another one may be a part of it.
        for part in parts.filter({ $0.contains("\n") }).sorted(by: { $0.utf8.count > $1.utf8.count }) {
            // Where it is nothing but space, it is only known by its quotes.
            let quote = part.allSatisfy(\.isWhitespace) ? "'" : ""
            let shown = String(decoding: LogLine.bytes("\(part)\n").dropLast(), as: UTF8.self)
            message = message.replacingOccurrences(of: quote + part + quote, with: quote + shown + quote)
        }
        return message
    }
}
