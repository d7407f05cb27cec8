import Glibc
import PandoReactor
import Synchronization
import Testing

@testable import PandoLog

/// A pipe, whose reader takes nothing before it is asked to.
private final class Pipe: Sendable {
    let reading: Int32
    let writing: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        try #require(unsafe pipe(&ends) == 0)
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Reads until so many lines have come; no more may have been written.
    func lines(_ count: Int) -> [String] {
        lines { bytes in bytes.count { $0 == UInt8(ascii: "\n") } >= count }
    }

    /// Reads until this line has come, which is the last.
    func lines(until last: String) -> [String] {
        let end = Array(("\n" + last + "\n").utf8)
        return lines { $0.suffix(end.count).elementsEqual(end) }
    }

    private func lines(until isComplete: ([UInt8]) -> Bool) -> [String] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while !isComplete(bytes) {
            let readCount = unsafe read(reading, &buffer, buffer.count)
            guard readCount > 0 else { break }
            bytes += buffer[..<readCount]
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

/// For tests that end by themselves: never reached.
private let patience: Duration = .seconds(120)

@Suite struct LogWriterTests {
    private func line(_ text: String) -> [UInt8] { Array((text + "\n").utf8) }

    @Test func withoutTheThreadEachLineIsWrittenAtOnce() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: patience)
        writer.append(line("one"))
        writer.append(line("two"), isOfRequest: true)
        writer.stop()
        #expect(pipe.lines(2) == ["one", "two"])
    }

    @Test func stopWritesWhatIsQueuedInOrder() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: patience)
        try writer.start { _ in }
        for number in 0..<1000 { writer.append(line("\(number)"), isOfRequest: number % 2 == 0) }
        writer.stop()
        writer.append(line("behind"))
        #expect(pipe.lines(1001) == (0..<1000).map { "\($0)" } + ["behind"])
        #expect(writer.droppedLineCount == 0)
    }

    @Test func flushWritesWhatIsQueued() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: patience)
        try writer.start { _ in }
        for number in 0..<100 {
            writer.append(line("\(number)"))
            writer.flush()
            // It is in the pipe: this waits for no other thread.
            #expect(pipe.lines(1) == ["\(number)"])
        }
        writer.stop()
    }

    @Test func whatAFlushCannotWriteIsWrittenLater() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: .milliseconds(20))
        try writer.start { _ in }
        // More than the pipe holds.
        let filler = String(repeating: "x", count: 1000)
        for number in 0..<200 { writer.append(line("\(number) \(filler)")) }
        writer.flush()
        writer.append(line("behind"))
        #expect(pipe.lines(201) == (0..<200).map { "\($0) \(filler)" } + ["behind"])
        writer.stop()
        #expect(writer.droppedLineCount == 0)
    }

    /// Without a reader, no thread that appends waits, and there is no limit to how often it may.
    @Test func noThreadWaitsForAReader() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: patience)
        try writer.start { [unowned writer] count in writer.append(Array("dropped \(count)\n".utf8)) }
        let filler = String(repeating: "x", count: 1000)
        for number in 0..<6000 { writer.append(line("\(number) \(filler)")) }
        #expect(writer.droppedLineCount > 0)
        let found = Mutex<[String]>([])
        let reader = try NamedThread.start("reader") {
            let lines = pipe.lines(until: "last")
            found.withLock { $0 = lines }
        }
        writer.stop()
        writer.append(line("last"))
        reader.join()
        let lines = found.withLock { $0 }
        let dropped = lines.filter { $0.hasPrefix("dropped ") }.compactMap { Int($0.dropFirst(8)) }
        #expect(UInt64(dropped.reduce(0, +)) == writer.droppedLineCount)
        #expect(lines.count { $0.hasSuffix(filler) } == 6000 - dropped.reduce(0, +))
    }

    /// Without a reader, lines of requests are dropped, and no thread waits. Then everything that was not
    /// dropped comes, other lines wholly, and in the log it says how many were dropped.
    @Test func linesThatFindNoPlaceAreDroppedAndCounted() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: patience)
        try writer.start { [unowned writer] count in writer.append(Array("dropped \(count)\n".utf8)) }
        let filler = String(repeating: "x", count: 1000)
        // The pipe, what the thread has taken, and the queue hold less than 4 MiB.
        let requestCount = 6000
        for number in 0..<requestCount {
            writer.append(line("request \(number) \(filler)"), isOfRequest: true)
            if number % 100 == 0 { writer.append(line("message \(number)")) }
        }
        #expect(writer.droppedLineCount > 0)
        let found = Mutex<[String]>([])
        let last = "message last"
        let reader = try NamedThread.start("reader") {
            let lines = pipe.lines(until: last)
            found.withLock { $0 = lines }
        }
        writer.stop()
        writer.append(line(last))
        reader.join()
        let lines = found.withLock { $0 }
        let requests = lines.filter { $0.hasPrefix("request ") }
        let dropped = lines.filter { $0.hasPrefix("dropped ") }.compactMap { Int($0.dropFirst(8)) }
        #expect(dropped.reduce(0, +) == requestCount - requests.count)
        #expect(UInt64(requestCount - requests.count) == writer.droppedLineCount)
        #expect(requests.allSatisfy { $0.hasSuffix(" \(filler)") }, "whole lines")
        let numbers = requests.compactMap { Int($0.split(separator: " ")[1]) }
        #expect(numbers == numbers.sorted() && numbers.first == 0)
        #expect(lines.count { $0.hasPrefix("message ") } == requestCount / 100 + 1)
    }

    /// Standard error takes nothing: a line waits for the timeout once, the next ones are dropped at once.
    /// When it takes something again, lines come whole, each on a line of its own.
    @Test func withoutTheThreadAStalledReaderDropsLines() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: .milliseconds(10))
        // More than the pipe holds: one of them is written in part.
        let filler = String(repeating: "x", count: 3000)
        for number in 0..<40 { writer.append(line("\(number) \(filler)")) }
        let wholeCount = 40 - Int(writer.droppedLineCount)
        #expect(10..<40 ~= wholeCount)
        let lines = pipe.lines(wholeCount)
        #expect(lines.prefix(wholeCount) == (0..<wholeCount).map { "\($0) \(filler)" }[...])
        writer.append(line("again"))
        writer.append(line("and again"))
        #expect(pipe.lines(until: "and again").suffix(2) == ["again", "and again"])
        #expect(Int(writer.droppedLineCount) == 40 - wholeCount)
    }

    /// Standard error takes nothing, for ever: the process ends all the same.
    @Test func stopDoesNotWaitForEver() throws {
        let pipe = try Pipe()
        let writer = try LogWriter(descriptor: pipe.writing, timeout: .milliseconds(1))
        try writer.start { _ in }
        for _ in 0..<1000 { writer.append(line(String(repeating: "x", count: 1000))) }
        writer.flush()
        writer.stop()
    }
}
