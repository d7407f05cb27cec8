import Foundation
import PandoBytes
import PandoCompression
import PandoHTTP
import Testing

@testable import PandoStaticFiles

@Suite struct StaticSiteTests {
    private static let page = Array("<p>console</p>".utf8)
    private static let script = [UInt8](repeating: UInt8(ascii: "x"), count: 5000)
    private static let site = StaticSite([
        "/index.html": page, "/docs.html": Array("docs".utf8), "/docs/guide.md": Array("# Guide".utf8),
        "/js/app.js": script, "/a b.txt": Array("space".utf8), "/sub/index.html": Array("sub".utf8),
        "/LICENSE": Array("licence".utf8), "/data.json": Array("{}".utf8),
        "/.git/config": Array("secret".utf8),
        "/sub/.hidden": Array("secret".utf8),
    ])

    private static func head(_ target: String, method: String = "GET", _ fields: [String] = []) throws
        -> RequestHead
    {
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + fields + ["", ""]
        let bytes = Array(lines.joined(separator: "\r\n").utf8)
        var reader = RequestHeadReader()
        var offset = 0
        return try #require(try reader.read(bytes.rawSpan, from: &offset))
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test(
        arguments: [
            // target                    body, nil where REST answers
            ("/", "<p>console</p>"),
            ("/?ns=default", "<p>console</p>"),
            ("/index.html", "<p>console</p>"),
            ("/docs", "docs"),
            ("/docs/", "docs"),
            ("/docs/guide.md", "# Guide"),
            ("/docs/guide", nil),
            ("/sub", "sub"),
            ("/a%20b.txt", "space"),
            ("/LICENSE", "licence"),
            ("/%6C%69", nil),
            ("/index%2Ehtml", "<p>console</p>"),
            // Data, and what is reserved
            ("/data.json", nil),
            ("/.json", nil),
            ("/index.html.json", nil),
            ("/.git/config", nil),
            ("/%2Egit/config", nil),
            ("/sub/.hidden", nil),
            ("/.settings/rules", nil),
            ("/no/such/file", nil),
            // Tricks
            ("/../index.html", nil),
            ("/docs/../index.html", nil),
            ("/docs/%2e%2e/index.html", nil),
            ("/docs%2Fguide.md", nil),
            ("/index.html%00.js", nil),
            ("/index.html%", nil),
            ("/index.html%ff", nil),
            ("//index.html", nil),
            ("/INDEX.HTML", nil),
            ("/js", nil),
            ("/js/app.js/", nil),
        ] as [(String, String?)])
    func pathsNameFiles(target: String, body: String?) throws {
        let response = Self.site.response(to: try Self.head(target), acceptsGzip: false)
        #expect(response.map { Self.text($0.body) } == body)
        #expect(response == nil || response?.status == .ok)
    }

    @Test(arguments: ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
    func otherMethodsAreNotForFiles(method: String) throws {
        #expect(Self.site.response(to: try Self.head("/", method: method), acceptsGzip: false) == nil)
        #expect(!StaticSite.mayHave(try Self.head("/", method: method)))
    }

    /// Content means nothing in a GET (RFC 9110 §9.3.1).
    @Test(arguments: ["Content-Length: 3", "Content-Length: 0", "Transfer-Encoding: chunked"])
    func contentOfAGetIsIgnored(field: String) throws {
        let response = Self.site.response(to: try Self.head("/", [field]), acceptsGzip: false)
        #expect(response?.status == .ok && response?.body == Self.page)
    }

    @Test func headHasTheFieldsOfGet() throws {
        let get = try #require(Self.site.response(to: try Self.head("/"), acceptsGzip: false))
        let head = try #require(
            Self.site.response(to: try Self.head("/", method: "HEAD"), acceptsGzip: false))
        #expect(get.head == head.head)
    }

    @Test(
        arguments: [
            ("/", "text/html; charset=utf-8"), ("/js/app.js", "text/javascript; charset=utf-8"),
            ("/docs/guide.md", "text/markdown; charset=utf-8"), ("/LICENSE", "text/plain; charset=utf-8"),
        ])
    func everyFileHasItsTypeAndThePolicy(target: String, type: String) throws {
        let response = try #require(Self.site.response(to: try Self.head(target), acceptsGzip: false))
        let lines = Self.text(response.head).components(separatedBy: "\r\n")
        #expect(lines.first == "HTTP/1.1 200 OK")
        #expect(lines.last == "")
        for line in [
            "Content-Type: \(type)", "Cache-Control: no-cache", "Vary: Accept-Encoding",
            "X-Frame-Options: DENY",
            "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
        ] { #expect(lines.contains(line), "\(line)") }
        let policy = try #require(lines.first { $0.hasPrefix("Content-Security-Policy: ") })
        for part in [
            "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'",
            "require-trusted-types-for 'script'", "base-uri 'none'",
        ] { #expect(policy.contains(part), "\(part)") }
        #expect(!policy.contains("unsafe"))
    }

    @Test func largeTextIsCompressedForClientsThatAcceptIt() throws {
        let request = try Self.head("/js/app.js")
        let plain = try #require(Self.site.response(to: request, acceptsGzip: false))
        let packed = try #require(Self.site.response(to: request, acceptsGzip: true))
        #expect(plain.body == Self.script)
        #expect(packed.body.count < 100)
        #expect(Self.text(packed.head).contains("Content-Encoding: gzip\r\n"))
        #expect(!Self.text(plain.head).contains("Content-Encoding"))
        #expect(Self.etag(plain) != Self.etag(packed))
        var body = try GzipBody(byteLimit: 1 << 20)
        var output: [UInt8] = []
        try body.inflate(packed.body.rawSpan, into: &output)
        #expect(output == Self.script)
        // Too small for it.
        let small = try #require(Self.site.response(to: try Self.head("/"), acceptsGzip: true))
        #expect(small.body == Self.page)
    }

    private static func etag(_ response: StaticResponse) -> String {
        text(response.head).components(separatedBy: "\r\n").first { $0.hasPrefix("ETag: ") }
            .map { String($0.dropFirst(6)) } ?? ""
    }

    @Test func aKnownTagIsNotModified() throws {
        let tag = Self.etag(try #require(Self.site.response(to: try Self.head("/"), acceptsGzip: false)))
        #expect(tag.count == 34 && tag.hasPrefix("\"") && tag.hasSuffix("\""))
        for (field, isKnown) in [
            (tag, true), ("W/\(tag)", true), ("\"other\", \(tag)", true), ("*", true), ("\"other\"", false),
            (String(tag.dropFirst().dropLast()), false), ("", false),
        ] {
            let request = try Self.head("/", ["If-None-Match: \(field)"])
            let response = try #require(Self.site.response(to: request, acceptsGzip: false))
            #expect((response.status == .notModified) == isKnown, "\(field)")
            #expect(response.body.isEmpty == isKnown)
            #expect(Self.etag(response) == tag)
        }
    }

    /// RFC 9110 §13: `{}` stands for the file's tag. Files have no date of their last change, so conditions
    /// on it are ignored.
    @Test(
        arguments: [
            (["If-Match: {}"], .ok),
            (["If-Match: \"other\", {}"], .ok),
            (["If-Match: \"other\"", "If-Match: {}"], .ok),
            (["If-Match: *"], .ok),
            (["If-Match: \"other\""], .preconditionFailed),
            (["If-Match: W/{}"], .preconditionFailed),
            (["If-Match:"], .preconditionFailed),
            (["If-Match: \"other\"", "If-None-Match: {}"], .preconditionFailed),
            (["If-Match: {}", "If-None-Match: {}"], .notModified),
            (["If-None-Match: \"other\"", "If-None-Match: {}"], .notModified),
            (["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], .ok),
            (["If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT"], .ok),
            (
                ["If-Match: \"other\"", "If-Unmodified-Since: Fri, 31 Dec 9999 23:59:59 GMT"],
                .preconditionFailed
            ),
        ] as [([String], HTTPStatus)], ["GET", "HEAD"])
    func conditions(row: (fields: [String], status: HTTPStatus), method: String) throws {
        let tag = Self.etag(try #require(Self.site.response(to: try Self.head("/"), acceptsGzip: false)))
        let fields = row.fields.map { $0.replacingOccurrences(of: "{}", with: tag) }
        let response = try #require(
            Self.site.response(to: try Self.head("/", method: method, fields), acceptsGzip: false))
        #expect(response.status == row.status)
        #expect(response.body.isEmpty == (row.status != .ok))
        #expect(Self.etag(response) == tag)
        let hasType = Self.text(response.head).contains("Content-Type:")
        #expect(hasType == (row.status == .ok))
    }

    @Test func aDirectoryIsReadWithoutLinksAndHiddenFiles() throws {
        let manager = FileManager.default
        let root = manager.temporaryDirectory.appendingPathComponent("pando-site-\(UUID().uuidString)").path
        defer { try? manager.removeItem(atPath: root) }
        try manager.createDirectory(atPath: "\(root)/a/.b", withIntermediateDirectories: true)
        for name in ["index.html", "a/x.js", ".hidden", "a/.b/y.js", "a/z.json"] {
            try Data(name.utf8).write(to: URL(fileURLWithPath: "\(root)/\(name)"))
        }
        try manager.createSymbolicLink(atPath: "\(root)/passwd", withDestinationPath: "/etc/passwd")
        try manager.createSymbolicLink(atPath: "\(root)/etc", withDestinationPath: "/etc")
        let (site, ignored) = try StaticDirectory.read(root)
        #expect(site.count == 2 && site.hasIndex)
        #expect(ignored == ["/a/z.json"])
        #expect(site.response(to: try Self.head("/a/x.js"), acceptsGzip: false)?.body == Array("a/x.js".utf8))
        for target in ["/passwd", "/etc/passwd", "/.hidden", "/a/.b/y.js"] {
            #expect(site.response(to: try Self.head(target), acceptsGzip: false) == nil, "\(target)")
        }
        #expect(throws: StaticDirectory.Unusable.self) { try StaticDirectory.read("\(root)/missing") }
        // One byte more than a file may have.
        let large = "\(root)/large.bin"
        try Data().write(to: URL(fileURLWithPath: large))
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: large))
        try handle.truncate(atOffset: UInt64(StaticDirectory.fileByteLimit + 1))
        try handle.close()
        #expect(throws: StaticDirectory.Unusable.self) { try StaticDirectory.read(root) }
    }

    @Test func theConsoleIsFoundBesideTheProgram() throws {
        let manager = FileManager.default
        let root = manager.temporaryDirectory.appendingPathComponent("pando-place-\(UUID().uuidString)").path
        defer { try? manager.removeItem(atPath: root) }
        for (program, site) in [
            ("one/pando", "one/public"), ("two/bin/pando", "two/share/pando/public"),
            ("three/.build/x86_64/release/pando", "three/public"),
        ] {
            #expect(StaticDirectory.besideProgram("\(root)/\(program)") == nil)
            try manager.createDirectory(atPath: "\(root)/\(site)", withIntermediateDirectories: true)
            try Data().write(to: URL(fileURLWithPath: "\(root)/\(site)/index.html"))
            #expect(StaticDirectory.besideProgram("\(root)/\(program)") == "\(root)/\(site)")
        }
    }
}
