import PandoBytes
import PandoHTTP
import Testing

@testable import PandoConnections

@Suite struct DevelopmentFilterTests {
    private static func head(_ fields: [String]) throws -> RequestHead {
        let bytes = Array((["GET /a.json HTTP/1.0"] + fields + ["", ""]).joined(separator: "\r\n").utf8)
        var reader = RequestHeadReader()
        var offset = 0
        return try #require(try reader.read(bytes.rawSpan, from: &offset))
    }

    @Test(
        arguments: [
            // fields                                                                        refused
            ([], nil),
            (["Host: localhost"], nil),
            (["Host: 10.0.2.2:9000"], nil),
            (["Host: 10.0.2.2:9000", "Origin: http://10.0.2.2:9000"], nil),
            (["Host: 10.0.2.2:9000", "Origin: http://10.0.2.2:9001"], .page("http://10.0.2.2:9001")),
            (["Host: 10.0.2.2:9000", "Origin: http://other.test:9000"], .page("http://other.test:9000")),
            (["Host: app.test"], nil),
            (["Host: other.test"], .host("other.test")),
            (["Host: app.test:81"], .host("app.test:81")),
            (["Host: localhost", "Origin: http://app.test"], nil),
            (["Host: localhost", "Origin: http://localhost:1"], nil),
            (["Host: localhost", "Origin: http://other.test"], .page("http://other.test")),
            (["Host: other.test", "Origin: http://app.test"], .host("other.test")),
            (["Host: localhost", "Origin: null"], .page("null")),
            (
                ["Host: localhost", "Origin: http://localhost", "Origin: http://other.test"],
                .page("http://localhost, http://other.test")
            ),
            (
                ["Host: localhost", "Origin: http://localhost", "Origin: http://localhost"],
                .page("http://localhost, http://localhost")
            ),
            (["Host: localhost", "Origin: http://10.0.2.2"], .page("http://10.0.2.2")),
            // The origin decides where there is one.
            (
                [
                    "Host: localhost", "Origin: http://localhost", "Sec-Fetch-Site: cross-site",
                    "Referer: http://other.test/",
                ], nil
            ),
            (["Host: localhost", "Sec-Fetch-Site: same-origin", "Referer: http://localhost/x"], nil),
            (["Host: localhost", "Sec-Fetch-Site: none"], nil),
            (["Host: localhost", "Sec-Fetch-Site: cross-site"], .page("")),
            (["Host: localhost", "Sec-Fetch-Site: same-site"], .page("")),
            (["Host: localhost", "Sec-Fetch-Site: cross-site", "Referer: http://app.test/x"], nil),
            (
                ["Host: localhost", "Sec-Fetch-Site: cross-site", "Referer: http://other.test/x"],
                .page("http://other.test/x")
            ),
            (["Host: localhost", "Sec-Fetch-Site: something-new"], .page("")),
            (["Host: localhost", "Referer: http://localhost:3000/"], nil),
            (["Host: localhost", "Referer: http://other.test/"], .page("http://other.test/")),
        ] as [([String], ForeignRequest?)])
    func refusals(fields: [String], refused: ForeignRequest?) throws {
        let allowed = [try #require(WebOrigin("http://app.test"))]
        var filter = DevelopmentFilter()
        let head = try Self.head(fields)
        #expect(filter.refusal(of: head, allowing: allowed) == refused)
        #expect(filter.refusal(of: head, allowing: allowed) == refused, "and again, as it was remembered")
    }

    /// A browser on this machine is a trusted proxy where 127.0.0.1 is one: a page whose name was rebound may
    /// state any `X-Forwarded-Host`.
    @Test(
        arguments: [
            // Host            X-Forwarded-Host    refused
            ("other.test", "localhost", .host("other.test")),
            ("other.test", "app.test", .host("other.test")),
            ("localhost", "other.test", .host("other.test")),
            ("localhost:9000", "app.test", nil),
            ("app.test", "localhost", nil),
            ("app.test", "app.test", nil),
            ("", "localhost", nil),
        ] as [(String, String, ForeignRequest?)])
    func forwardedHostsDoNotHideTheHost(host: String, forwarded: String, refused: ForeignRequest?) throws {
        let allowed = [try #require(WebOrigin("http://app.test"))]
        var filter = DevelopmentFilter()
        let hostLines = host.isEmpty ? [] : ["Host: \(host)"]
        // What was remembered of a request without the field decides nothing here.
        _ = filter.refusal(of: RequestHead(forwarded: try Self.head(hostLines)), allowing: allowed)
        let head = RequestHead(forwarded: try Self.head(hostLines + ["X-Forwarded-Host: \(forwarded)"]))
        #expect(head.authority == forwarded)
        #expect(filter.refusal(of: head, allowing: allowed) == refused)
        #expect(filter.refusal(of: head, allowing: allowed) == refused, "and again, as it was remembered")
    }

    /// One connection may carry requests of many pages (a proxy's does): each is looked at.
    @Test func eachRequestIsLookedAt() throws {
        var filter = DevelopmentFilter()
        for fields in [
            ["Host: localhost"], ["Host: localhost", "Origin: http://other.test"], ["Host: other.test"],
        ] {
            for _ in 0..<2 {
                let isRefused = filter.refusal(of: try Self.head(fields), allowing: []) != nil
                #expect(isRefused == (fields != ["Host: localhost"]))
            }
            let site = ["Host: localhost", "Sec-Fetch-Site: cross-site"]
            #expect(filter.refusal(of: try Self.head(site), allowing: []) == .page(""))
            #expect(
                filter.refusal(of: try Self.head(["Host: localhost", "Sec-Fetch-Site: none"]), allowing: [])
                    == nil)
        }
    }

    @Test func reasonsNameWhatIsRefusedAndTheOption() {
        for (request, text) in [
            (ForeignRequest.host("a\u{1B}[31m\"b"), #""a\u001b[31m\"b""#),
            (.page("http://other.test"), #""http://other.test""#),
            (.page("null"), "without an origin"), (.page(""), "without an origin"),
        ] {
            #expect(
                request.reason.contains(text) && request.reason.contains("--allow-origin"),
                "\(request.reason)")
        }
        #expect(ForeignRequest.page(Text(String(repeating: "x", count: 60_000))).reason.count < 500)
    }
}
