import PandoBytes
import PandoHTTP
import PandoRandom
import PandoTree
import Testing

@testable import PandoREST

private let heads = [
    "GET /a/b%20c/.priority.json?ns=x&auth=t&print=pretty HTTP/1.1\r\nHost: h\r\nX-Firebase-ETag: true\r\n\r\n",
    "GET /.json?orderBy=%22dim/h%22&startAt=5,%22k%22&endBefore=%22x%22&limitToLast=10&timeout=10s HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.json?shallow=true&limitToFirst=3&startAfter=x&callback=a.b[0]&download=x.json HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /a.json?x-http-method-override=PATCH&writeSizeLimit=tiny HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n",
    "PUT /é/%F0%9F%90%B5.json?auth_variable_override={%22uid%22:%22x%22} HTTP/1.1\r\nHost: h\r\nif-match: null_etag\r\n\r\n",
    "GET /.settings/rules.json?format=strict HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip;q=0.5, *\r\n\r\n",
].map { Array($0.utf8) }

private let bodies = [
    #"{"a/b/.priority":"x","/b/":{".value":1,".priority":{".sv":"timestamp"}},"c":[1,null,{"d":{".sv":{"increment":-1.5}}}]}"#,
    #"{"0":"a","1":{"é\u00e9\ud83d\udc35":true},".priority":1}"#, "[1,2,[3]]", "null", #""text""#, "-12.5e3",
].map { Array($0.utf8) }

private let spice =
    Array(#"{}[]",:\/.-+eE0123456789tfnu$# %&=?;*"#.utf8) + [0x00, 0x1F, 0x7F, 0x80, 0xC3, 0xED, 0xF0, 0xFF]

private func mutated(_ sample: [UInt8], _ others: [[UInt8]], _ generator: inout SeededGenerator) -> [UInt8] {
    var bytes = sample
    for _ in 0..<Int.random(in: 1...5, using: &generator) where !bytes.isEmpty {
        let index = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 1: bytes[index] = spice.randomElement(using: &generator) ?? 0
        case 2: bytes.insert(spice.randomElement(using: &generator) ?? 0, at: index)
        case 3: bytes.remove(at: index)
        case 4:
            let run = Array(repeating: bytes[index], count: Int.random(in: 1...100, using: &generator))
            bytes.insert(contentsOf: run, at: index)
        default:
            let other = others.randomElement(using: &generator) ?? []
            bytes.replaceSubrange(index..., with: other[min(index, other.count)...])
        }
    }
    return bytes
}

/// Whatever is sent, there is an answer that the HTTP room reads back; and what is let through keeps its
/// promises.
@Test(arguments: 0..<4 as Range<UInt64>)
func mutatedRequestsNeverTrap(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    var acceptedCount = 0
    for _ in 0..<1500 {
        let sample = heads.randomElement(using: &generator) ?? []
        guard let head = try? head(mutated(sample, heads, &generator)) else { continue }
        let context = ResponseContext(head)
        var answer: RESTResponse
        do throws(RESTError) {
            let request = try RESTRequest(head)
            try request.checkConditions()
            acceptedCount += 1
            if case .data(let target) = request.location {
                #expect(target.path.count <= Limits.pathDepth)
                #expect(target.path.keys.allSatisfy { Key.isLegal($0.text) })
            }
            #expect(request.timeout > .zero && request.timeout <= RESTLimits.timeout)
            answer = .value(.string("x"), etag: "t", to: request, context)
            if request.method.isWrite, case .data(let target) = request.location {
                let sent = mutated(bodies.randomElement(using: &generator) ?? [], bodies, &generator)
                check(try request.readBody(sent.rawSpan), below: target)
            }
        } catch {
            answer = .error(error, context)
        }
        var bytes: [UInt8] = []
        while let piece = answer.next() { bytes += piece }
        var reader = ResponseHeadReader()
        var offset = 0
        let received = try reader.read(bytes.rawSpan, from: &offset)
        #expect(received?.statusCode == Int(answer.status.code))
    }
    #expect(acceptedCount > 50, "the mutations leave nothing to test")
}

private func check(_ body: RESTBody, below base: Target) {
    switch body {
    case .value(let draft):
        #expect(base.path.count + draft.depth <= Limits.pathDepth)
    case .update(let update):
        #expect(update.names.count == update.writes.count)
        for (index, write) in update.writes.enumerated() {
            #expect(base.path.contains(write.target.path))
            #expect(write.target.path.count + write.draft.depth <= Limits.pathDepth)
            for other in update.writes[..<index] { #expect(other.target != write.target) }
        }
    }
}

/// A body of one kind of byte, or as nested as it can be, costs no more than its length.
@Test func hostileBodiesAreRefusedInLinearTime() throws {
    for unit in ["[", "{\"a\":", "\"", "1", "-", "{\"a/b/c/d\":1},", "\\u0000", "/"] {
        let sent = String(repeating: unit, count: 200_000)
        for method in ["PUT", "PATCH"] { _ = try bodyRefusal(method, "/a.json", sent) }
    }
    let wide = "{" + (0..<50_000).map { #""k\#($0)/a":\#($0)"# }.joined(separator: ",") + "}"
    #expect(try bodyRefusal("PATCH", "/a.json", wide) == nil)
    let slashes = #"{"\#(String(repeating: "/", count: 500_000))a":1}"#
    #expect(try bodyRefusal("PATCH", "/a.json", slashes) == nil)
}
