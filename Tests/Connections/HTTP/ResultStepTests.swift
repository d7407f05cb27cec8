import PandoBytes
import PandoDatabase
import PandoHTTP
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections

@Suite struct ResultStepTests {
    /// A result, by a name that is short where a test fails.
    enum Result {
        case readSmall, readLarge, writtenLarge, writtenUnread, refused, stream

        private static let small = Node.string("a")
        /// Longer than what the loop measures itself.
        private static let large = Node.string(Text(String(repeating: "a", count: 300_000)))

        var result: RESTCallResult {
            switch self {
            case .readSmall: .read(Self.small)
            case .readLarge: .read(Self.large)
            case .writtenLarge: .written(Self.large)
            case .writtenUnread: .writtenUnread(Self.small)
            case .refused: .refused(.permissionDenied)
            case .stream: .stream
            }
        }
    }

    private func text(_ step: ResultStep) -> String {
        switch step {
        case .inspect: "inspect"
        case .stream: "stream"
        case .measure(_, let query, let byteLimit, let wantsETag):
            "measure" + (query == nil ? "" : " the query") + (byteLimit.map { " up to \($0)" } ?? "")
                + (wantsETag ? ", with a tag" : "")
        case .respond(let etag): etag == nil ? "respond" : "respond, with a tag"
        case .refuse(let error): "refuse: \(error)"
        }
    }

    @Test(
        arguments: [
            // request                    field                    result     limit    step
            ("GET /a.json", "", .readSmall, 1 << 20, "respond"),
            ("GET /a.json", "X-Firebase-ETag: true", .readSmall, 1 << 20, "respond, with a tag"),
            ("GET /a.json", "", .readLarge, 1 << 20, "measure up to 1048576"),
            (
                "GET /a.json", "X-Firebase-ETag: true", .readLarge, 1 << 20,
                "measure up to 1048576, with a tag"
            ),
            // So small a limit needs no worker.
            ("GET /a.json", "", .readLarge, 1000, "refuse: \(RESTError.readTooLarge)"),
            // The keys alone are no large response.
            ("GET /a.json?shallow=true", "", .readLarge, 1000, "respond"),
            ("PUT /a.json", "", .writtenLarge, 1000, "respond"),
            ("PUT /a.json", "X-Firebase-ETag: true", .writtenLarge, 1000, "measure, with a tag"),
            // The tag would reveal what the client may not read.
            ("PUT /a.json", "X-Firebase-ETag: true", .writtenUnread, 1000, "respond"),
            ("GET /a.json", "", .refused, 1000, "respond"),
            ("GET /a.json", "Accept: text/event-stream", .stream, 1000, "stream"),
        ] as [(String, String, Result, Int, String)])
    func resultDecidesTheNextStep(
        line: String, field: String, result: Result, readByteLimit: Int, expected: String
    ) throws {
        let lines = ["\(line) HTTP/1.1", "Host: localhost"] + (field.isEmpty ? [] : [field])
        let request = try RESTRequest(head(lines))
        #expect(text(ResultStep(result.result, of: request, readByteLimit: readByteLimit)) == expected)
    }
}
