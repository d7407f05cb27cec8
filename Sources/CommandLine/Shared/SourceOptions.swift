import ArgumentParser
import Foundation

/// Either a data directory or a running server.
struct SourceOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The server's data directory.", valueName: "dir"))
    var data: String?

    @Option(
        help: ArgumentHelp(
            "A running server: http://127.0.0.1:9000 or https://HOST (or ws:, wss:).", valueName: "url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            "With --url: a file with an administrator's token. Without it, the token is in PANDO_TOKEN, or in the file of PANDO_TOKEN_FILE.",
            valueName: "file"
        ))
    var tokenFile: String?

    func validate() throws {
        guard (data == nil) != (url == nil) else { throw ValidationError("give either --data or --url") }
        if tokenFile != nil, url == nil { throw ValidationError("--token-file: only with --url") }
    }

    enum Place {
        case directory(String)
        case server(ServerClient)
    }

    var place: Place {
        get throws {
            guard let url else { return .directory(data ?? "") }
            return .server(try ServerClient(url, token: try AdministratorToken.read(file: tokenFile)))
        }
    }
}

/// The token of an administrator, as commands that ask a server take it.
enum AdministratorToken {
    /// The token itself.
    static let variable = "PANDO_TOKEN"
    /// A file with it.
    static let fileVariable = "PANDO_TOKEN_FILE"

    /// - Parameter file: The value of `--token-file`; nil for what the environment says.
    /// - Returns: Nil where there is none.
    /// - Throws: `ValidationError` for a file that cannot be read, or holds no token.
    static func read(file: String?) throws -> String? {
        let environment = ProcessInfo.processInfo.environment
        var (text, name) = (environment[variable], variable)
        if let path = file ?? (text == nil ? environment[fileVariable] : nil) {
            name = file == nil ? fileVariable : "--token-file"
            guard let data = FileManager.default.contents(atPath: path) else {
                throw ValidationError("\(name): \(path) can't be read")
            }
            text = String(decoding: data, as: UTF8.self)
        }
        guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
            return nil
        }
        // The token becomes part of a header field.
        guard token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ValidationError("\(name): the content is not a token")
        }
        return token
    }
}
