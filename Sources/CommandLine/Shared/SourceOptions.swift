import ArgumentParser
import Foundation

/// Either a data directory or a running server.
struct SourceOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The server's data directory.", valueName: "dir"))
    var data: String?

    @Option(help: ArgumentHelp("A running server: http://127.0.0.1:9000 or https://HOST.", valueName: "url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            "With --url: a file with an administrator's token. Without it, the token is in PANDO_TOKEN.",
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
            return .server(try ServerClient(url, token: try token))
        }
    }

    private var token: String? {
        get throws {
            var text = ProcessInfo.processInfo.environment["PANDO_TOKEN"]
            if let tokenFile {
                guard let data = FileManager.default.contents(atPath: tokenFile) else {
                    throw ValidationError("--token-file: \(tokenFile) can't be read")
                }
                text = String(decoding: data, as: UTF8.self)
            }
            guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
                return nil
            }
            // The token becomes part of a header field.
            guard token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                throw ValidationError("--token-file: the content is not a token")
            }
            return token
        }
    }
}
