import PandoBytes
import PandoHTTP
import PandoRandom
import PandoTree

@testable import PandoREST

/// The head of a request, as the HTTP room reads it.
func head(_ method: String, _ target: String, _ fields: [String] = [], version: String = "1.1") throws
    -> RequestHead
{
    let lines = ["\(method) \(target) HTTP/\(version)", "Host: localhost:9000"] + fields
    return try head(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8))
}

struct UnfinishedHead: Error {}

func head(_ bytes: [UInt8]) throws -> RequestHead {
    var reader = RequestHeadReader()
    var offset = 0
    guard let head = try reader.read(bytes.rawSpan, from: &offset) else { throw UnfinishedHead() }
    return head
}

func request(_ method: String, _ target: String, _ fields: [String] = []) throws -> RESTRequest {
    let head = try head(method, target, fields)
    return try RESTRequest(head)
}

/// What the request is refused with before its body is read, conditions included; nil when it is let through.
func refusal(_ method: String, _ target: String, _ fields: [String] = []) throws -> RESTError? {
    let head = try head(method, target, fields)
    do throws(RESTError) {
        try RESTRequest(head).checkConditions()
        return nil
    } catch {
        return error
    }
}

func body(_ method: String, _ target: String, _ json: String) throws -> RESTBody {
    let request = try request(method, target)
    return try request.readBody(Array(json.utf8).rawSpan)
}

func bodyRefusal(_ method: String, _ target: String, _ json: String) throws -> RESTError? {
    let request = try request(method, target)
    do throws(RESTError) {
        _ = try request.readBody(Array(json.utf8).rawSpan)
        return nil
    } catch {
        return error
    }
}

/// A node of a JSON text.
func node(_ json: String) throws -> Node {
    try Node(json: Array(json.utf8).rawSpan)
}

/// A query as the realtime protocol spells it.
func query(_ json: String) throws -> Query {
    let bytes = Array(json.utf8)
    return try withCursor(over: bytes.rawSpan) { cursor in
        var reader = JSONReader(cursor)
        let query = try Query(reading: &reader)
        if let problem = reader.invalidData { throw problem }
        return query
    }
}

extension SeededGenerator {
    /// True once in `n` calls, on average.
    mutating func one(in n: Int) -> Bool { Int.random(in: 0..<n, using: &self) == 0 }
}
