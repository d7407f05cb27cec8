import PandoBytes
import PandoTree
import Testing

@testable import PandoREST

private func printed(_ node: Node, _ form: JSONForm = JSONForm()) -> String {
    pieces(ValuePrinter(.node(node), form), of: 1 << 20).text
}

private func pieces(_ printer: ValuePrinter, of byteLimit: Int) -> (text: String, counts: [Int]) {
    var printer = printer
    var bytes: [UInt8] = []
    var counts: [Int] = []
    while let piece = printer.next(atMost: byteLimit) {
        bytes += piece
        counts.append(piece.count)
    }
    #expect(printer.isFinished)
    return (String(decoding: bytes, as: UTF8.self), counts)
}

private let allForms: [JSONForm] = (0..<16).map { bits in
    var form = JSONForm()
    form.isPretty = bits & 1 != 0
    form.hasPriorities = bits & 2 != 0
    form.hasArrays = bits & 4 != 0
    form.isShallow = bits & 8 != 0
    return form
}

/// rest §3.1, §14 #36.
@Test(arguments: [
    (#"{"1":"a","2":"b"}"#, #"[null,"a","b"]"#),
    (#"{"0":"a","9":"b"}"#, #"{"0":"a","9":"b"}"#),
    (#"{"0":"a","1":"b","3":"d"}"#, #"["a","b",null,"d"]"#),
    (#"{"0":"a"}"#, #"["a"]"#),
    (#"{"1":"a"}"#, #"[null,"a"]"#),
    (#"{"2":"a"}"#, #"{"2":"a"}"#),
    (#"{"1":"a","3":"b"}"#, #"[null,"a",null,"b"]"#),
    (#"{"3":1,"4":1}"#, #"{"3":1,"4":1}"#),
    (#"{"00":1}"#, #"{"00":1}"#),
    (#"{"0":1,"01":2,"2":3}"#, #"{"0":1,"01":2,"2":3}"#),
    (#"{"-1":1,"0":1}"#, #"{"-1":1,"0":1}"#),
    (#"{"0":1,"a":1}"#, #"{"0":1,"a":1}"#),
    (#"{"x":[1,[2],{"0":[3]}]}"#, #"{"x":[1,[2],[[3]]]}"#),
    (#"{"0":1,".priority":4}"#, "[1]"),
    (#"{".value":"v",".priority":1}"#, #""v""#),
    ("null", "null"), ("1.0", "1"), ("1e21", "1e+21"), ("9007199254740993", "9007199254740993"),
])
func arraysAreShownAsSuch(stored: String, shown: String) throws {
    #expect(printed(try node(stored)) == shown)
}

@Test(arguments: [
    (#"{"h":3}"#, "{\n  \"h\" : 3\n}\n"),
    ("null", "null\n"), (#""x""#, "\"x\"\n"),
    (#"{"a":[1,2],"b":{"c":true}}"#, "{\n  \"a\" : [ 1, 2 ],\n  \"b\" : {\n    \"c\" : true\n  }\n}\n"),
    (#"[{"a":1},{"b":2}]"#, "[ {\n  \"a\" : 1\n}, {\n  \"b\" : 2\n} ]\n"),
])
func prettyHasTwoSpacesAndOneNewline(stored: String, shown: String) throws {
    var form = JSONForm()
    form.isPretty = true
    #expect(printed(try node(stored), form) == shown)
}

/// rest §4.1, §14 #15.
@Test(arguments: [
    (#"{"a":{"h":4},"b":1}"#, #"{"a":true,"b":true}"#), ("1", "1"), ("null", "null"),
    (#"["a","b"]"#, #"{"0":true,"1":true}"#), (#"{".value":1,".priority":2}"#, "1"),
])
func shallowShowsKeys(stored: String, shown: String) throws {
    var form = ResponseForm()
    form.isShallow = true
    #expect(printed(try node(stored), JSONForm(reading: form)) == shown)
}

@Test func exportAgreesWithTreePrinter() {
    var form = ResponseForm()
    form.isExport = true
    for seed in 0..<200 as Range<UInt64> {
        var maker = TreeMaker(seed: seed)
        let tree = maker.tree()
        #expect(printed(tree, JSONForm(reading: form)) == tree.description)
    }
}

@Test func printsAsTheNaivePrinterDoes() {
    for seed in 0..<300 as Range<UInt64> {
        var maker = TreeMaker(seed: seed)
        let tree = maker.tree()
        for form in allForms {
            #expect(printed(tree, form) == NaivePrinter(form: form).text(tree), "seed \(seed), \(form)")
        }
    }
}

@Test func pieceSizeDoesNotChangeText() {
    for seed in 0..<25 as Range<UInt64> {
        var maker = TreeMaker(seed: seed)
        let tree = maker.tree()
        for form in allForms {
            let printer = ValuePrinter(
                .node(tree), form, prefix: Array("pre(".utf8), suffix: Array(");".utf8))
            let whole = pieces(printer, of: 1 << 20).text
            let byteCount = whole.utf8.count
            for size in Array(1...40) + [byteCount - 1, byteCount, byteCount + 1] {
                let cut = pieces(printer, of: size)
                #expect(cut.text == whole, "seed \(seed), pieces of \(size), \(form)")
                #expect(cut.counts.dropLast().allSatisfy { $0 == size })
                #expect(cut.counts.last.map { $0 <= size } ?? false)
            }
        }
    }
}

/// Two characters that end a line of a script, in texts and names, whatever the pieces are cut at.
@Test(arguments: [
    ("\u{2028}", #"\u2028"#), ("a\u{2029}\u{2028}b", #"a\u2029\u2028b"#),
    ("\u{2027}\u{202A}\u{20A8}", "\u{2027}\u{202A}\u{20A8}"),
    ("\u{2068}é🐵", "\u{2068}é🐵"), (#"\\u2028"#, #"\\u2028"#), ("", ""),
])
func lineSeparatorsOfAScriptAreEscaped(text: String, escaped: String) throws {
    let tree = try node(#"{"k\#(text)":["x\#(text)",{"\#(text)k":"\#(text)"}],"z":"\#(text)\#(text)"}"#)
    let expected =
        #"f({"k\#(escaped)":["x\#(escaped)",{"\#(escaped)k":"\#(escaped)"}],"z":"\#(escaped)\#(escaped)"});"#
    var form = JSONForm()
    form.isScript = true
    let printer = ValuePrinter(.node(tree), form, prefix: Array("f(".utf8), suffix: Array(");".utf8))
    for size in 1...(expected.utf8.count + 1) {
        #expect(pieces(printer, of: size).text == expected, "pieces of \(size)")
    }
    #expect(printed(tree).contains(text), "JSON has them as they are")
}

@Test func membersAreShownInTheirOrder() throws {
    let members = [
        ValuePrinter.Member(name: "b/c", node: try node(#"{"0":[1],"x":"y"}"#)),
        ValuePrinter.Member(name: "a\n", node: .empty),
        ValuePrinter.Member(name: "zz", node: .boolean(true)),
    ]
    let printer = ValuePrinter(.members(members), JSONForm())
    let whole = #"{"b/c":{"0":[1],"x":"y"},"a\n":null,"zz":true}"#
    for size in 1...60 { #expect(pieces(printer, of: size).text == whole) }
    #expect(pieces(ValuePrinter(.members([]), JSONForm()), of: 9).text == "{}")
}

@Test func wholeTextUpToLimit() throws {
    let tree = try node(#"{"a":"\#(String(repeating: "x", count: 50))","b":[1,2,3]}"#)
    let text = printed(tree)
    for limit in 0...(text.utf8.count + 3) {
        var printer = ValuePrinter(.node(tree), JSONForm())
        let whole = printer.whole(atMost: limit)
        #expect(whole.map { String(decoding: $0, as: UTF8.self) } == (limit < text.utf8.count ? nil : text))
        #expect(printer.isFinished == (whole != nil))
        // What was not given whole comes in pieces all the same.
        if whole == nil { #expect(pieces(printer, of: 7).text == text) }
    }
}

/// What is printed to the buffer is returned later, and counts once.
@Test(arguments: [1, 30, 1000]) func bufferedBytesAreReturnedOnce(step: Int) throws {
    let tree = try node(#"{"a":"\#(String(repeating: "x", count: 50))","b":{"c":2,"d":3}}"#)
    let text = printed(tree)
    var printer = ValuePrinter(.node(tree), JSONForm())
    var before = 0
    while !printer.isComplete {
        printer.printToBuffer(step)
        #expect(printer.bufferedByteCount >= before + step || printer.isComplete)
        #expect(printer.workCount == printer.bufferedByteCount)
        before = printer.bufferedByteCount
    }
    let piece = printer.next()
    #expect(piece.map { String(decoding: $0, as: UTF8.self) } == text && printer.isFinished)
    #expect(printer.workCount == text.utf8.count)
}

/// Long texts are printed in parts, also as priorities, and none is cut inside a character.
@Test(arguments: ["x", "é", "\u{2028}", "🐵", "\u{1}", "\"", "a\u{2029}b🐵\\"], [(0, 1), (1, 3), (3, 7)])
func longTextsAreCutBetweenCharacters(pattern: String, lead: (Int, Int)) throws {
    let long = Text(
        String(repeating: "y", count: lead.0) + String(repeating: pattern, count: 40_000 / pattern.utf8.count)
    )
    let other = Text(
        String(repeating: "z", count: lead.1) + String(repeating: pattern, count: 20_000 / pattern.utf8.count)
    )
    var tree = Node.empty
    tree.set(.string(long), at: Path(["a"]))
    tree.set(Node.string(other).with(priority: .string(long)), at: Path(["b"]))
    tree.set(.integer(1), at: Path(["c", "d"]))
    tree = tree.with(priority: .string(other))
    for bits in 0..<4 {
        var form = JSONForm()
        form.hasPriorities = bits & 1 != 0
        form.isScript = bits & 2 != 0
        var expected = NaivePrinter(form: form).text(tree)
        if form.isScript {
            expected = expected.replacing("\u{2028}", with: #"\u2028"#).replacing(
                "\u{2029}", with: #"\u2029"#)
        }
        for size in [10_000, 65_536] {
            var printer = ValuePrinter(.node(tree), form)
            var (bytes, worked): ([UInt8], Int) = ([], 0)
            while let piece = printer.next(atMost: size) {
                bytes += piece
                // A part of 16 KiB may have six times as many bytes.
                #expect(printer.workCount - worked <= size + 6 * 16_384)
                worked = printer.workCount
            }
            #expect(String(decoding: bytes, as: UTF8.self) == expected)
        }
    }
}

/// To find out whether an object is an array, as many keys are looked at as a piece has bytes.
@Test(arguments: [true, false]) func keysOfALongArrayAreLookedAtInPieces(isArray: Bool) {
    var list = Node.empty
    for index in 0..<200_000 { list.set(.boolean(true), at: Path([Key(index: index)])) }
    // An integer, and no index: behind all of them but one.
    if !isArray { list.set(.boolean(true), at: Path(["0199998"])) }
    var tree = Node.empty
    tree.set(.integer(0), at: Path(["a"]))
    tree.set(list, at: Path(["b"]))
    tree.set(.integer(2), at: Path(["c"]))
    var printer = ValuePrinter(.node(tree), JSONForm())
    #expect(printer.whole(atMost: RESTLimits.pieceByteCount) == nil)
    var (bytes, worked, emptyCount): ([UInt8], Int, Int) = ([], printer.workCount, 0)
    #expect(worked <= 65_536 + 100)
    while let piece = printer.next() {
        bytes += piece
        if piece.isEmpty { emptyCount += 1 }
        #expect(printer.workCount - worked <= 2 * 65_536 + 100)
        worked = printer.workCount
    }
    #expect(printer.isFinished && emptyCount == 1)
    #expect(String(decoding: bytes, as: UTF8.self) == NaivePrinter(form: JSONForm()).text(tree))
}

/// A long buffer is not kept when it was returned.
@Test func memoryOfALongBufferIsGivenUp() {
    var tree = Node.empty
    for index in 0..<300_000 { tree.set(.integer(1), at: Path([Key(unchecked: Text("k\(index)"))])) }
    var printer = ValuePrinter(.node(tree), JSONForm())
    printer.printToBuffer(1 << 20)
    #expect(printer.heldByteCount >= 1 << 20)
    for _ in 0..<20 { _ = printer.next() }
    #expect(!printer.isComplete && printer.heldByteCount <= 4 * RESTLimits.pieceByteCount)
}

/// Wide and sparse objects, over many pages of a tree, with more holes than a piece holds.
@Test func largeValuesComeInPieces() {
    var sparse = Node.empty
    var wide = Node.empty
    for index in 0..<20_000 {
        sparse.set(.integer(1), at: Path([Key(index: index + 19_990)]))
        wide.set(.string("value"), at: Path(["k", Key(unchecked: Text("key\(index)"))]))
    }
    for tree in [sparse, wide] {
        let whole = NaivePrinter(form: JSONForm()).text(tree)
        for size in [100, 1000, 65_536] {
            #expect(pieces(ValuePrinter(.node(tree), JSONForm()), of: size).text == whole)
        }
    }
}
