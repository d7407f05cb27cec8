import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoREST

/// `where` against the same query as the realtime protocol spells it (§5.4).
@Suite struct WhereParameterTests {
    @Test(
        arguments: [
            // parameters                                          as `q`                                  index
            (#"where={"c":"CH"}&orderBy="s""#, #"{"w":{"c":"CH"},"i":"s"}"#, "c+s"),
            (#"where=%7B%22c%22:%22CH%22%7D&orderBy="d/e""#, #"{"w":{"c":"CH"},"i":"d/e"}"#, "c+d/e"),
            (
                #"where={"b":1,"a":null}&orderBy="s"&startAt=2,"k"&limitToLast=3"#,
                #"{"w":{"a":null,"b":1},"i":"s","sp":2,"sn":"k","l":3,"vf":"r"}"#, "a+b+s"
            ),
            (#"where={"c":"CH"}"#, #"{"i":"c","sp":"CH","ep":"CH"}"#, "c"),
            (#"where={"c":"CH"}&orderBy="$key"&limitToFirst=2"#, #"{"w":{"c":"CH"},"l":2,"vf":"l"}"#, "c"),
            (#"where={"c":"CH","d":true}"#, #"{"w":{"c":"CH","d":true}}"#, "c+d"),
            (#"where={"c":"CH"}&orderBy="s"&equalTo=5"#, #"{"w":{"c":"CH"},"i":"s","sp":5,"ep":5}"#, "c+s"),
            (
                #"where={"c":"CH"}&orderBy="s"&startAfter=5"#,
                #"{"w":{"c":"CH"},"i":"s","sp":5,"sin":false}"#, "c+s"
            ),
        ] as [(String, String, String?)])
    func parametersAreAQuery(parameters: String, spelled: String, index: String?) throws {
        let request = try request("GET", "/pub.json?\(parameters)")
        #expect(request.query == (try query(spelled)))
        #expect(request.indexName == index)
    }

    @Test(arguments: [
        ("where=5", RESTError.whereMalformed.text), ("where=", RESTError.whereMalformed.text),
        ("where={}", RESTError.whereMalformed.text), (#"where={"a":1"#, RESTError.whereMalformed.text),
        (#"where={"a":{}}"#, RESTError.whereMalformed.text),
        (#"where={"a":[1]}"#, RESTError.whereMalformed.text),
        (#"where={"a":1e999}"#, RESTError.whereMalformed.text),
        (#"where={"a":1}x"#, RESTError.whereMalformed.text),
        (#"where={"a":1}&where={"a":1}"#, RESTError.whereMalformed.text),
        (#"where={"a":"\ud800"}"#, RESTError.whereMalformed.text),
        (#"where={"a":1}&orderBy="a""#, "Invalid query: where names a field twice"),
        (#"where={"a":1,"/a/":2}"#, "Invalid query: where names a field twice"),
        (#"where={"a":1,"a":2}"#, "Invalid query: where names a field twice"),
        (#"where={"":1}"#, "Invalid query: a field needs a name"),
        (#"where={"a":1}&orderBy="$value""#, "Invalid query: where needs an order by a child or by key"),
        (#"where={"a":1}&orderBy="$priority""#, "Invalid query: where needs an order by a child or by key"),
        (#"where={"a":1,"b":2,"c":3,"d":4,"e":5}"#, "Invalid query: at most 4 fields"),
        (#"where={"a":1,"b":2,"c":3,"d":4}&orderBy="e""#, "Invalid query: at most 4 fields"),
        (#"where={"a":1}&shallow=true"#, RESTError.shallowWithQuery.text),
        (#"orderBy="s"&cursor="#, RESTError.cursorWithoutLimit.text),
        ("cursor=", RESTError.orderByMissing.text),
        ("cursor=&shallow=true&limitToFirst=1", RESTError.shallowWithQuery.text),
    ])
    func misuse(parameters: String, text: String) throws {
        let refusal = try refusal("GET", "/pub.json?\(parameters)")
        #expect(refusal?.text == text)
        #expect(refusal?.status == .badRequest)
    }

    @Test func aCursorIsNoEventStream() throws {
        let target = #"/a.json?orderBy="s"&limitToFirst=1&cursor="#
        #expect(try refusal("GET", target, ["Accept: text/event-stream"]) == .cursorStream)
        #expect(try refusal("GET", target) == nil)
    }
}

@Suite struct CursorTests {
    private static let tree = try! node(
        #"{"a":{"s":1,"c":1},"b":{"s":1},"c":{"s":"x\u0000y","c":1},"d":{},"e":{"s":{"z":1},"c":1},"f":{"s":{"y":1}},"g":{"s":true},"h":0.1,"i":{"s":-0.1},"j":{"s":9007199254740993,"c":1},"k":{"s":9007199254740992}}"#
    )

    private static let orders = [
        #"orderBy="s""#, #"orderBy="$key""#, #"orderBy="$value""#, #"orderBy="$priority""#,
        #"where={"c":1}&orderBy="s""#,
        #"where={"c":1}"#, #"orderBy="s"&startAt=0"#, #"orderBy="s"&endBefore="x","c""#,
        #"orderBy="s"&equalTo=null"#,
    ]

    /// Pages of each size, in both directions, put together are the whole.
    @Test(arguments: orders) func pagesAreTheWhole(parameters: String) throws {
        let whole = try request("GET", "/q.json?\(parameters)").query!
        let expected = Window(whole, over: Self.tree).entries.map(\.key)
        for limit in ["limitToFirst", "limitToLast"] {
            for size in 1...5 {
                var keys: [Key] = []
                var cursor: String? = ""
                while let text = cursor {
                    let request = try request("GET", "/q.json?\(parameters)&\(limit)=\(size)&cursor=\(text)")
                    let query = try request.page!.query(of: request.query!, at: "q")
                    let window = Window(query, over: Self.tree)
                    let page = window.entries.map(\.key)
                    keys = limit == "limitToFirst" ? keys + page : page + keys
                    cursor = try request.cursor(behind: window.endOfPage)
                    #expect(cursor == nil || page.count == size)
                }
                #expect(keys == expected, "\(parameters) \(limit)=\(size)")
            }
        }
    }

    private func cursor(_ target: String) throws -> String {
        let request = try request("GET", target)
        return try #require(try request.cursor(behind: Window(request.query!, over: Self.tree).endOfPage))
    }

    private func refusal(of cursor: String, at target: String) throws -> RESTError? {
        let request = try request("GET", "\(target)&cursor=\(cursor)")
        guard case .data(let location) = request.location else { return nil }
        do throws(RESTError) {
            _ = try request.page?.query(of: request.query!, at: location.path)
            return nil
        } catch {
            return error
        }
    }

    @Test func aCursorBelongsToItsQuery() throws {
        let target = #"/q.json?orderBy="s"&startAt=0&limitToFirst=2"#
        let cursor = try cursor(target)
        #expect(try refusal(of: cursor, at: target) == nil)
        #expect(
            try refusal(of: cursor, at: #"/q.json?orderBy="s"&startAt=0&limitToFirst=7"#) == nil,
            "another size")
        for other in [
            #"/r.json?orderBy="s"&startAt=0&limitToFirst=2"#,
            #"/q.json?orderBy="t"&startAt=0&limitToFirst=2"#,
            #"/q.json?orderBy="s"&startAt=1&limitToFirst=2"#,
            #"/q.json?orderBy="s"&startAfter=0&limitToFirst=2"#,
            #"/q.json?orderBy="s"&startAt=0&limitToLast=2"#, #"/q.json?orderBy="s"&limitToFirst=2"#,
            #"/q.json?orderBy="s"&startAt=0&endAt=5&limitToFirst=2"#,
            #"/q.json?where={"c":1}&orderBy="s"&limitToFirst=2"#,
        ] { #expect(try refusal(of: cursor, at: other) == .cursorOfAnotherQuery, "\(other)") }
    }

    @Test(arguments: [1, 2] as [UInt64]) func damagedCursorsAreRefused(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let target = #"/q.json?orderBy="s"&limitToFirst=2"#
        let cursor = Array(try cursor(target).utf8)
        for text in ["x", "AQ", "====", "%00", "é", String(repeating: "A", count: 15000), "AQAAAAAAAAAAW10"] {
            #expect(try refusal(of: text, at: target) == .cursorMalformed, "\(text.prefix(20))")
        }
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for _ in 0..<3000 {
            var damaged = cursor
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                damaged[Int.random(in: 0..<cursor.count, using: &random)] = alphabet.randomElement(
                    using: &random)!
            case 1: damaged.removeLast(Int.random(in: 1..<cursor.count, using: &random))
            default:
                damaged.insert(
                    alphabet.randomElement(using: &random)!,
                    at: Int.random(in: 0..<cursor.count, using: &random))
            }
            // It is refused, or is another place in the same order: nothing traps, and nothing beyond the
            // query is read.
            switch try refusal(of: String(decoding: damaged, as: UTF8.self), at: target) {
            case nil, .cursorMalformed, .cursorOfAnotherQuery: break
            case let other: #expect(Bool(false), "seed \(seed): \(String(describing: other))")
            }
        }
    }

    /// A made-up place before the query's start selects nothing: a page never reaches beyond its query.
    @Test func aPlaceOutsideTheQuerySelectsNothing() throws {
        let request = try request("GET", #"/q.json?orderBy="s"&startAt=1&endAt=1&limitToFirst=2"#)
        for (value, key) in [(Node.boolean(true), "g" as Key), (.string("x"), "c")] {
            var window = Window(
                Query(order: .child("s"), limit: .init(count: 1, anchor: .first)), over: Self.tree)
            window = Window(
                Query(
                    order: .child("s"), start: Bound(value: value, key: .key(key), isInclusive: true),
                    limit: .init(count: 1, anchor: .first)),
                over: Self.tree)
            let place = try PageCursor(try #require(window.endOfPage))
            let query = request.query!.continued(behind: place)
            #expect(Window(query, over: Self.tree).isEmpty)
        }
    }

    @Test func aPageThatEndsWithALongStringHasNoCursor() throws {
        let text = String(repeating: "x", count: PageCursor.stringByteCount + 1)
        let long = try node(#"{"a":{"s":"\#(text)"},"b":{"s":"\#(text)"}}"#)
        let request = try request("GET", #"/q.json?orderBy="s"&limitToFirst=1&cursor="#)
        let end = Window(request.query!, over: long).endOfPage
        #expect(throws: RESTError.cursorTooLong) { try request.cursor(behind: end) }
    }

    @Test func theResponseHasTheCursor() throws {
        let request = try request("GET", #"/q.json?orderBy="s"&limitToFirst=1&cursor="#)
        let context = ResponseContext(try head("GET", "/q.json"))
        var response = RESTResponse.value(.integer(1), cursor: "abc", to: request, context)
        let bytes = response.next()
        let text = String(decoding: try #require(bytes), as: UTF8.self)
        #expect(text.contains("\r\nPando-Cursor: abc\r\n"))
        #expect(text.contains("\r\nAccess-Control-Expose-Headers: Pando-Cursor\r\n"))
    }
}
