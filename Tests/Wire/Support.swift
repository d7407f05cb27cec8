import PandoBytes
import PandoTree

@testable import PandoWire

func parse(_ text: String) throws(MalformedMessage) -> ClientMessage {
    try parse(Array(text.utf8))
}

func parse(_ bytes: [UInt8]) throws(MalformedMessage) -> ClientMessage {
    try ClientMessage(parsing: bytes.rawSpan)
}

/// The action of a request, whatever its number.
func action(_ verb: String, _ body: String) throws(MalformedMessage) -> Action? {
    let message = try parse(#"{"t":"d","d":{"r":7,"a":"\#(verb)","b":\#(body)}}"#)
    guard case .request(let request) = message, request.number == 7 else { return nil }
    return request.action
}

/// A draft as the module Tree reads it.
func draft(_ json: String) -> Draft {
    let bytes = Array(json.utf8)
    return withCursor(over: bytes.rawSpan) { cursor in
        var parser = DraftParser(JSONReader(cursor))
        let draft = try? parser.readDraft()
        return draft ?? Draft(.string(Text("not JSON: \(json)")))
    }
}

func node(_ json: String) -> Node { draft(json).node }

func query(_ json: String) -> Query {
    let bytes = Array(json.utf8)
    return withCursor(over: bytes.rawSpan) { cursor in
        var reader = JSONReader(cursor)
        return (try? Query(reading: &reader)) ?? Query(order: .child("not a query"))
    }
}

func put(_ path: Path, _ json: String, hash: Text? = nil) -> Action {
    guard let hash else { return .put(entry(path, json)) }
    return .transaction(entry(path, json), expectedHash: hash, wantsCurrentValue: false)
}

func entry(_ path: Path, _ json: String) -> Write {
    Write(Target(path), draft(json))
}

/// What `write` appends, as text.
func written(_ write: (inout [UInt8]) -> Void) -> String {
    var bytes: [UInt8] = []
    write(&bytes)
    return String(decoding: bytes, as: UTF8.self)
}

func permutations<Element>(_ elements: [Element]) -> [[Element]] {
    guard let last = elements.last else { return [[]] }
    return permutations(Array(elements.dropLast())).flatMap { shorter in
        (0...shorter.count).map { index in
            var longer = shorter
            longer.insert(last, at: index)
            return longer
        }
    }
}

// The macros of the testing library cannot pass spans; they can pass arrays.

extension Reassembler {
    mutating func accept(_ payload: [UInt8]) throws(ReassemblyViolation) -> Event {
        try accept(payload.rawSpan)
    }
}

func split(_ message: [UInt8]) -> Segmentation { Segmenter.split(message.rawSpan) }

func isText(_ bytes: [UInt8]) -> Bool { isValidUTF8(bytes.rawSpan) }
