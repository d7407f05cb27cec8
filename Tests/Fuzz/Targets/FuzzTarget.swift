/// What a fuzzer gives any bytes to: one parser, or one format, with what must be true of its results.
///
/// The same targets are run by the tests (`Tests/Fuzz/Replay`: the corpus, and some mutations of it by seed)
/// and by libFuzzer (`Tests/Fuzz/Fuzzer`, see `CONTRIBUTING.md`).
package struct FuzzTarget: Sendable, CustomStringConvertible {
    /// - Throws: ``FuzzFailure`` where something is not as it must be. A trap is a failure, too.
    package enum Check: Sendable {
        /// Ends before it returns, on the thread that calls it.
        case direct(@Sendable ([UInt8]) throws -> Void)
        /// Needs Swift's tasks.
        case awaited(@Sendable ([UInt8]) async throws -> Void)
    }

    /// Also the name of its folder in `Tests/Fuzz/Corpora`.
    package let name: String
    /// Mutations of each input of the corpus that the tests try: fewer where one costs more.
    package let mutationCount: Int
    package let check: Check

    package var description: String { name }

    init(_ name: String, mutationCount: Int = 300, _ check: @escaping @Sendable ([UInt8]) throws -> Void) {
        self.init(name, mutationCount: mutationCount, check: .direct(check))
    }

    init(_ name: String, mutationCount: Int = 300, check: Check) {
        (self.name, self.mutationCount, self.check) = (name, mutationCount, check)
    }

    /// - Throws: As ``Check``.
    package func run(_ input: [UInt8]) async throws {
        switch check {
        case .direct(let check): try check(input)
        case .awaited(let check): try await check(input)
        }
    }

    package static let all: [FuzzTarget] = [
        FuzzTarget("http", checkHTTP),
        FuzzTarget("proxy", checkProxy),
        FuzzTarget("frames", checkFrames),
        FuzzTarget("deflate", mutationCount: 200, checkDeflate),
        FuzzTarget("segmenter", checkSegmenter),
        FuzzTarget("polling", checkPolling),
        FuzzTarget("json", checkJSON),
        FuzzTarget("requests", checkRequests),
        FuzzTarget("rules", mutationCount: 150, checkRules),
        FuzzTarget("tokens", mutationCount: 100, check: .awaited(checkToken)),
        FuzzTarget("journal", mutationCount: 150, checkJournal),
        FuzzTarget("checkpoint", mutationCount: 150, checkCheckpoint),
        FuzzTarget("tls", mutationCount: 30, checkTLS),
    ]
}

/// Something is not as it must be.
package struct FuzzFailure: Error, CustomStringConvertible {
    package let description: String
}

/// - Throws: ``FuzzFailure`` where the condition does not hold.
func require(_ condition: Bool, _ text: @autoclosure () -> String) throws {
    guard condition else { throw FuzzFailure(description: text()) }
}

/// Takes numbers from an input, which decide what is done with the rest: 0 where it is used up.
struct InputReader {
    private var rest: ArraySlice<UInt8>

    init(_ input: [UInt8]) { rest = input[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func byte() -> Int { Int(rest.popFirst() ?? 0) }

    /// At most as many as there are.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func remainder() -> [UInt8] { bytes(rest.count) }
}

/// The bytes in pieces of so many each.
func pieces(_ bytes: [UInt8], of size: Int) -> [[UInt8]] {
    let size = max(1, size)
    return stride(from: 0, to: bytes.count, by: size).map { start in
        Array(bytes[start..<(bytes.count - start > size ? start + size : bytes.count)])
    }
}

extension FuzzTarget {
    /// For the test of those who run targets.
    package static let alwaysFailing = FuzzTarget("always failing") { _ in
        try require(false, "as it must")
    }
}
