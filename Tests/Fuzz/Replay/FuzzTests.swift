import PandoFuzzTargets
import PandoRandom
import Testing

#if canImport(Glibc)
    import Glibc
#endif

/// The corpora of the fuzzers, and mutations of them by seed: what libFuzzer has once found is an input there
/// and stays found.
@Suite struct FuzzTests {
    @Test(arguments: FuzzTarget.all)
    func corpus(target: FuzzTarget) async throws {
        let corpus = try Corpus(of: target)
        #expect(!corpus.inputs.isEmpty, "\(target) has no corpus")
        for input in corpus.inputs {
            await check(target, input.bytes, "\(input.name)")
            // And every beginning of it.
            let step = max(1, input.bytes.count / 40)
            for count in stride(from: 0, to: input.bytes.count, by: step) {
                await check(target, Array(input.bytes[..<count]), "the first \(count) bytes of \(input.name)")
            }
        }
    }

    @Test(arguments: FuzzTarget.all)
    func mutations(target: FuzzTarget) async throws {
        let corpus = try Corpus(of: target)
        for (index, input) in corpus.inputs.filter({ !$0.isFound }).enumerated() {
            for round in 0..<target.mutationCount {
                let seed = UInt64(index) << 32 | UInt64(round)
                var generator = SeededGenerator(seed: seed)
                let mutated = corpus.mutation(of: input.bytes, &generator)
                await check(target, mutated, "a mutation of \(input.name), seed \(seed)")
            }
        }
    }

    private func check(_ target: FuzzTarget, _ input: [UInt8], _ name: String) async {
        do {
            try await target.run(input)
        } catch {
            Issue.record("\(target): \(name): \(error)\n\(input)")
        }
    }

    /// The targets do find faults: an input that breaks what is required is one.
    @Test func failuresAreReported() async {
        await #expect(throws: FuzzFailure.self) {
            try await FuzzTarget.alwaysFailing.run([])
        }
    }
}

/// The inputs of one target.
private struct Corpus {
    struct Input {
        var name: String
        var bytes: [UInt8]

        /// libFuzzer has found it to reach something new. There are many: mutations of others get parts of
        /// them.
        var isFound: Bool { name.hasPrefix("found-") }
    }

    let inputs: [Input]

    init(of target: FuzzTarget) throws {
        let tests = String(#filePath.dropLast("Replay/FuzzTests.swift".count))
        let folder = tests + "Corpora/" + target.name
        inputs = try Self.names(in: folder).sorted().map {
            Input(name: $0, bytes: try Self.read(folder + "/" + $0))
        }
    }

    private static func names(in folder: String) throws -> [String] {
        guard let directory = unsafe opendir(folder) else { throw Unreadable(path: folder) }
        defer { unsafe closedir(directory) }
        var names: [String] = []
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    private static func read(_ path: String) throws -> [UInt8] {
        guard let file = unsafe fopen(path, "r") else { throw Unreadable(path: path) }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = unsafe fread(&bytes, 1, bytes.count, file)
        guard count < bytes.count else { throw Unreadable(path: path) }
        return Array(bytes[..<count])
    }

    struct Unreadable: Error {
        var path: String
    }

    /// A few changes: of bits, bytes and runs, and what another input has.
    func mutation(of input: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = input
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let index = Int.random(in: 0...bytes.count, using: &generator)
            let other = inputs.randomElement(using: &generator)?.bytes ?? []
            switch Int.random(in: 0..<7, using: &generator) {
            case 0 where index < bytes.count: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1 where index < bytes.count: bytes[index] = UInt8.random(in: 0...255, using: &generator)
            case 2: bytes.insert(Self.interesting.randomElement(using: &generator) ?? 0, at: index)
            case 3:
                let end = min(bytes.count, index + Int.random(in: 1...16, using: &generator))
                bytes.removeSubrange(index..<end)
            case 4:
                let end = min(bytes.count, index + Int.random(in: 1...64, using: &generator))
                bytes.insert(contentsOf: Array(bytes[index..<end]), at: index)
            case 5:
                let start = Int.random(in: 0...other.count, using: &generator)
                bytes.replaceSubrange(index..., with: other[start...])
            default:
                let start = Int.random(in: 0...other.count, using: &generator)
                let end = min(other.count, start + Int.random(in: 1...32, using: &generator))
                bytes.insert(contentsOf: other[start..<end], at: index)
            }
        }
        return bytes
    }

    private static let interesting: [UInt8] =
        [0, 1, 0x7F, 0x80, 0xFF, 0xC3, 0xED, 0xF0] + Array(" \r\n\t\"'\\/{}[]:,.&=?%$#-+0129eE".utf8)
}
