import PandoBytes
import PandoTree
import Testing

@testable import PandoWire

/// The server's lines of realtime §15, byte for byte.
@Test func everyServerLineOfTheTranscripts() {
    let rows: [(expected: String, write: (inout [UInt8]) -> Void)] = [
        // 15.1, 1.3, 1.4, 3.2
        (
            #"{"t":"c","d":{"t":"h","d":{"ts":1700000000000,"v":"5","h":"localhost:9000","s":"4fJq0m3T2uXbW8cKdE7nLsYvR1aGzHpO"}}}"#,
            {
                $0.append(
                    handshake: 1_700_000_000_000, host: "localhost:9000",
                    sessionID: "4fJq0m3T2uXbW8cKdE7nLsYvR1aGzHpO")
            }
        ),
        (#"{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#, { $0.append(reply: 1, .ok) }),
        (#"{"t":"c","d":{"t":"o","d":null}}"#, { $0.appendPong() }),
        (
            #"{"t":"c","d":{"t":"s","d":"Invalid \"appcheck\" token"}}"#,
            { $0.append(shutdown: #"Invalid "appcheck" token"#) }
        ),
        (
            #"{"t":"c","d":{"t":"r","d":"s-usc1c-nss-114.firebaseio.com"}}"#,
            { $0.append(reset: "s-usc1c-nss-114.firebaseio.com") }
        ),
        (#"{"t":"c","d":{"t":"e","d":"too large"}}"#, { $0.append(errorNotice: "too large") }),
        // 15.2
        (#"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{}}}}"#, { $0.append(reply: 2, .ok, .object) }),
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"room/a/text","d":{".value":"yo",".priority":2}}}}"#,
            {
                $0.append(push: node(#"{".value":"yo",".priority":2}"#), at: "/room/a/text")
                $0.append(pushTail: nil)
            }
        ),
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"room/a","d":{".priority":5,"at":1700000000123,"text":{".value":"yo",".priority":2}}}}}"#,
            {
                let value = #"{"text":{".value":"yo",".priority":2},"at":1700000000123,".priority":5}"#
                $0.append(push: node(value), at: "/room/a")
                $0.append(pushTail: nil)
            }
        ),
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"room/a","d":null}}}"#,
            {
                $0.append(push: .empty, at: "/room/a")
                $0.append(pushTail: nil)
            }
        ),
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"","d":1}}}"#,
            {
                $0.append(push: .integer(1), at: .root)
                $0.append(pushTail: nil)
            }
        ),
        // 15.3
        (#"{"t":"d","d":{"r":8,"b":{"s":"ok","d":null}}}"#, { $0.append(reply: 8, .ok, .node(.empty)) }),
        (
            #"{"t":"d","d":{"r":9,"b":{"s":"ok","d":{"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}}}}"#,
            { $0.append(reply: 9, .ok, .node(node(#"{"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}"#))) }
        ),
        // 15.4
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"top","d":{"p2":{"score":30},"p3":{"score":20}},"t":1}}}"#,
            {
                $0.append(push: node(#"{"p2":{"score":30},"p3":{"score":20}}"#), at: "/top")
                $0.append(pushTail: 1)
            }
        ),
        (
            #"{"t":"d","d":{"a":"m","b":{"p":"top","d":{"p3":null,"p1":{"score":40}},"t":1}}}"#,
            {
                $0.append(
                    mergePush: [
                        (path: Path("/top/p3"), node: .empty),
                        (path: Path("/top/p1"), node: node(#"{"score":40}"#)),
                    ],
                    at: "/top")
                $0.append(pushTail: 1)
            }
        ),
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"top/p2/score","d":50,"t":9223372036854775807}}}"#,
            {
                $0.append(push: .integer(50), at: "/top/p2/score")
                $0.append(pushTail: .max)
            }
        ),
        (
            #"{"t":"d","d":{"r":11,"b":{"s":"ok","d":{"w":["no_index"]}}}}"#,
            { $0.append(reply: 11, .ok, .noIndex) }
        ),
        // 15.5
        (
            #"{"t":"d","d":{"a":"m","b":{"p":"users","d":{"u1/name":"Ann","u2":null}}}}"#,
            {
                $0.append(
                    mergePush: [
                        (path: Path("/users/u1/name"), node: .string("Ann")),
                        (path: Path("/users/u2"), node: .empty),
                    ],
                    at: "/users")
                $0.append(pushTail: nil)
            }
        ),
        // 15.6, 11.2
        (
            #"{"t":"d","d":{"r":14,"b":{"s":"datastale","d":"Transaction hash does not match"}}}"#,
            { $0.append(reply: 14, .dataStale, .text("Transaction hash does not match")) }
        ),
        (
            #"{"t":"d","d":{"r":14,"b":{"s":"datastale","d":"stale","current":{"value":{".value":5,".priority":1},"hash":"h="}}}}"#,
            {
                let payload = ReplyData.current(
                    reason: "stale", node: node(#"{".value":5,".priority":1}"#), hash: "h=")
                $0.append(reply: 14, .dataStale, payload)
            }
        ),
        // 15.8
        (
            #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{"auth":{"uid":"u1"},"expires":1700003600}}}}"#,
            {
                let payload = ReplyData.authenticated(
                    json: Array(#"{"uid":"u1"}"#.utf8), expires: 1_700_003_600)
                $0.append(reply: 2, .ok, payload)
            }
        ),
        (
            #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{"auth":null,"expires":null}}}}"#,
            { $0.append(reply: 2, .ok, .authenticated(json: nil, expires: nil)) }
        ),
        (
            #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"Auth token is expired."}}}"#,
            { $0.append(authRevoked: .expiredToken, reason: "Auth token is expired.") }
        ),
        (
            #"{"t":"d","d":{"a":"apc","b":{"s":"invalid_token","d":"x"}}}"#,
            { $0.append(appCheckRevoked: .invalidToken, reason: "x") }
        ),
        (#"{"t":"d","d":{"a":"c","b":{"p":"private"}}}"#, { $0.append(listenRevoked: "/private") }),
        (
            #"{"t":"d","d":{"a":"c","b":{"p":"a/b","q":[{"l":2,"vf":"r"}]}}}"#,
            { $0.append(listenRevoked: "/a/b", queryText: #"{"l":2,"vf":"r"}"#) }
        ),
        (
            #"{"t":"d","d":{"r":9,"b":{"s":"ok","d":"unauthenticated"}}}"#,
            { $0.append(reply: 9, .ok, .text("unauthenticated")) }
        ),
        (
            #"{"t":"d","d":{"r":2,"b":{"s":"invalid_token","d":"Could not parse auth token."}}}"#,
            { $0.append(reply: 2, .invalidToken, .text("Could not parse auth token.")) }
        ),
        // 15.9
        (
            #"{"t":"d","d":{"r":3,"b":{"s":"permission_denied","d":"Permission denied"}}}"#,
            { $0.append(reply: 3, .permissionDenied, .text("Permission denied")) }
        ),
        // 9.7
        (
            #"{"t":"d","d":{"a":"rm","b":{"p":"t","d":[{"s":"a/x","e":"b","m":{"a":{"y":2},"b":4}}]}}}"#,
            {
                let range = RangeMerge(start: "a/x", end: "b", node: node(#"{"a":{"y":2},"b":4}"#))
                $0.append(rangeMergePush: [range], at: "/t")
                $0.append(pushTail: nil)
            }
        ),
        (
            #"{"t":"d","d":{"a":"rm","b":{"p":"t","d":[{"e":"/","m":null},{"s":"/","m":1}],"t":4}}}"#,
            {
                let ranges = [
                    RangeMerge(start: nil, end: .root, node: .empty),
                    RangeMerge(start: .root, end: nil, node: .integer(1)),
                ]
                $0.append(rangeMergePush: ranges, at: "/t")
                $0.append(pushTail: 4)
            }
        ),
        // Keys may have characters that JSON must escape.
        (
            #"{"t":"d","d":{"a":"d","b":{"p":"a\"/\\b/c","d":1}}}"#,
            {
                $0.append(push: .integer(1), at: #"/a"/\b/c"#)
                $0.append(pushTail: nil)
            }
        ),
        // Android's first request.
        (
            #"{"t":"d","d":{"r":0,"b":{"s":"error","d":"Unknown action"}}}"#,
            { $0.append(reply: 0, .error, .text("Unknown action")) }
        ),
        (#"{"t":"d","d":{"r":-5,"b":{"s":"too_big","d":""}}}"#, { $0.append(reply: -5, .tooBig) }),
    ]
    for row in rows {
        #expect(written(row.write) == row.expected)
        // Messages are appended: what is in the buffer stays.
        let second = written { bytes in
            bytes.append("x")
            row.write(&bytes)
        }
        #expect(second == "x" + row.expected)
        // It is JSON.
        let bytes = Array(row.expected.utf8)
        #expect(throws: Never.self) {
            try withCursor(over: bytes.rawSpan) { cursor in
                var reader = JSONReader(cursor)
                _ = try reader.skipValue()
                try reader.expectEnd()
            }
        }
    }
}

/// A head does not depend on the listen.
@Test func onlyTheTailDiffersBetweenListens() {
    let head = written { $0.append(push: node(#"{"a":1}"#), at: "/x") }
    for tag in [nil, 1, 77] as [Int64?] {
        let whole = written {
            $0.append(push: node(#"{"a":1}"#), at: "/x")
            $0.append(pushTail: tag)
        }
        #expect(whole == head + written { $0.append(pushTail: tag) })
    }
}
