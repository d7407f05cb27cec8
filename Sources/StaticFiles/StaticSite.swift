import PandoBytes
import PandoHTTP

/// The files that a server delivers beside the data: the console and the documents.
///
/// All are in memory, and a request is one lookup by its whole path. So no path of a request reaches the file
/// system: `..`, a link or an encoded slash names no entry of the table.
package struct StaticSite: Sendable {
    /// By the path of a request, decoded: `/js/app.js`.
    private let files: [Text: StaticFile]

    /// A site of some files.
    /// - Parameter contents: By their paths, which begin with a slash. Left out is what ``isServed(_:)``
    ///   refuses.
    /// - Complexity: O(bytes).
    package init(_ contents: [String: [UInt8]]) {
        files = Dictionary(
            uniqueKeysWithValues: contents.lazy.filter { Self.isServed($0.key) }.map {
                (Text($0.key), StaticFile(path: $0.key, $0.value))
            })
    }

    /// The number of files.
    package var count: Int { files.count }

    /// Whether the site has a page for `/`.
    package var hasIndex: Bool { files["/index.html"] != nil }

    /// Whether a file of this path can be served: data has the paths that end in `.json` (rest §1.1), and a
    /// name that begins with a dot is reserved (`/.ws`) or hidden.
    package static func isServed(_ path: String) -> Bool {
        path.hasPrefix("/") && !path.hasSuffix(".json") && !path.contains("/.")
    }

    /// Whether a request may be one for a file of any site: a GET or HEAD, of no path of the data. O(1),
    /// since it is asked of every request.
    package static func mayHave(_ head: RequestHead) -> Bool {
        (head.method == .get || head.method == .head) && !head.pathBytes.span.hasSuffix(".json")
    }

    /// The response to a request for a file; nil where the site has none of that path.
    /// - Parameters:
    ///   - head: Of the request. Its query is ignored.
    ///   - acceptsGzip: The client prefers gzip.
    /// - Complexity: O(path); at the first request of a file O(bytes), to compress it.
    package func response(to head: RequestHead, acceptsGzip: Bool) -> StaticResponse? {
        guard Self.mayHave(head), let path = Self.decoded(head.pathBytes), let file = file(at: path) else {
            return nil
        }
        let representation = file.representation(acceptsGzip: acceptsGzip)
        let verdict = PreconditionVerdict(head.fields, etag: representation.etag)
        return StaticResponse(file, representation, verdict)
    }

    /// `/docs` is also the address of `/docs.html`, and of `/docs/index.html`.
    private func file(at path: Text) -> StaticFile? {
        if let file = files[path] { return file }
        var stem = path.bytes
        while stem.last == UInt8(ascii: "/") { stem.removeLast() }
        return files[Text(utf8: (stem + Array("/index.html".utf8)).span)]
            ?? files[Text(utf8: (stem + Array(".html".utf8)).span)]
    }

    /// The path with its escapes decoded; nil where an encoded slash or zero would change what it names, or
    /// where the bytes are no text.
    private static func decoded(_ bytes: ArraySlice<UInt8>) -> Text? {
        guard bytes.contains(UInt8(ascii: "%")) else { return Text(validating: bytes.span) }
        let slashes = bytes.count { $0 == UInt8(ascii: "/") }
        let decoded = decodePercentBytes(bytes, plusIsSpace: false)
        guard decoded.count(where: { $0 == UInt8(ascii: "/") }) == slashes, !decoded.contains(0) else {
            return nil
        }
        return Text(validating: decoded.span)
    }
}
