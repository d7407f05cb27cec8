import Dispatch
import Logging
import PandoBytes
import PandoJournal
import PandoReactor
import PandoTime
import Testing

@testable import PandoStorage

/// A start waits for the first look at a directory: shortly for a disk that does not answer, longer for one
/// that has answered.
@Suite struct FirstLookTests {
    /// Longer than anything here takes. Waited for only where a test fails.
    static let patience: Duration = .seconds(60)
    static let refusal = StorageError.locked("refused")

    enum Step { case answer, complete, refuse }

    /// What was noted before the waiting begins, whose time for an answer has passed. A look that is complete
    /// later is wanted only where the waiting has not ended before.
    @Test(
        arguments: [
            ([], .seconds(3600), .unanswered), ([.answer], .zero, .incomplete),
            ([.complete], .zero, .complete), ([.answer, .complete], .zero, .complete),
            ([.refuse], .zero, nil), ([.answer, .refuse], .zero, nil),
        ] as [([Step], Duration, FirstLook.Outcome?)])
    func outcomes(steps: [Step], lookTime: Duration, outcome: FirstLook.Outcome?) throws {
        let look = try FirstLook()
        for step in steps {
            switch step {
            case .answer: look.noteAnswer()
            case .complete: #expect(look.complete(nil))
            case .refuse: #expect(look.complete(Self.refusal))
            }
        }
        guard let outcome else {
            #expect(throws: StorageError.self) { try look.wait(until: .now, afterAnswer: lookTime) }
            return
        }
        #expect(try look.wait(until: .now, afterAnswer: lookTime) == outcome)
        guard outcome != .complete else { return }
        look.noteAnswer()
        let isWanted = look.complete(Self.refusal)
        #expect(!isWanted, "the start has gone on")
    }

    /// The time counts from the answer, and is never shorter than that of a disk that does not answer.
    @Test func lookMayGoOnWhereTheDiskHasAnswered() throws {
        let (long, short) = (try FirstLook(), try FirstLook())
        long.noteAnswer()
        let call = try ThreadCall("look") { long.complete(nil) }
        #expect(try long.wait(until: .now, afterAnswer: Self.patience) == .complete)
        #expect(call.value(until: .now + Self.patience) == true)
        short.noteAnswer(at: MonotonicTime(nanoseconds: 1))
        #expect(try short.wait(until: .now, afterAnswer: .milliseconds(1)) == .incomplete)
    }

    /// A disk on which opening a directory waits until the test lets it.
    final class SlowDisk: Sendable {
        private let calls = DispatchSemaphore(value: 0)
        private let answers = DispatchSemaphore(value: 0)

        func open(_ path: String, _ create: Bool) throws(DiskFailure) -> SystemDisk {
            calls.signal()
            answers.wait()
            return try SystemDisk(directory: path, create: create)
        }

        /// Waits until it is called once more.
        func waitForCall() -> Bool { calls.wait(timeout: .now() + .seconds(60)) == .success }
        func answer(_ count: Int = 1) { for _ in 0..<count { answers.signal() } }
        /// More often than a test calls it.
        func answerAlways() { answer(10_000) }
    }

    /// A thread whose directory is on a slow disk, and holds what refuses the start.
    struct World {
        let folder: BackupDirectoryTests.Folder
        let disk = SlowDisk()
        let metrics = BackupMetrics()
        let waitForFirstLook: (MonotonicTime, Duration) throws -> FirstLook.Outcome

        static let own = DirectoryID(1, 2)
        static let other = DirectoryID(3, 4)

        init(_ use: BackupUse) throws {
            let folder = try BackupDirectoryTests.Folder()
            self.folder = folder
            for path in [folder.data, folder.place] { try folder.make(path) }
            let directory = BackupDirectory(at: folder.place, use: use, rememberedIn: nil) {
                [disk] path, create throws(DiskFailure) in try disk.open(path, create)
            }
            let source = try SystemDisk(directory: folder.data, create: false)
            var origin = JournalOrigin(inMemory: .machine)
            origin.directory = Self.own
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            switch use {
            case .archive:
                var state = RecoveredState(access: .open)
                let journal = try Journal.open(on: source, newDirectoryID: Self.own, into: &state)
                let target = try SystemDisk(directory: folder.place, create: false)
                _ = try Journal.open(on: target, newDirectoryID: Self.other, into: &state)
                let mark = JournalMark()
                mark.position = journal.writtenPosition
                let thread = try ArchiveThread(
                    of: source, in: directory, origin: origin, mark: mark, metrics: metrics, logger: logger)
                waitForFirstLook = { try thread.waitForFirstLook(until: $0, afterAnswer: $1) }
            case .backups:
                let header = CheckpointHeader(
                    directory: Self.own, timeline: 1, sequence: SequenceNumber(9), timestamp: 1000)
                let target = try SystemDisk(directory: folder.place, create: false)
                let file = try target.open(BackupName(header).text, .create)
                try target.write(header.bytes.rawSpan, to: file, at: 0)
                var options = BackupOptions()
                options.interval = .seconds(3600)
                let thread = try BackupThread(
                    options,
                    in: BackupThread.Places(
                        backups: directory, origin: origin, journal: source,
                        timeline: TimelineHistory(timeline: 1, directory: Self.own), archiveTrim: nil,
                        mark: nil, beginning: nil),
                    test: RestoreTest(run: { _ in .cancelled }, clean: { _ in }), metrics: metrics,
                    logger: logger
                ) { _ in }
                waitForFirstLook = { try thread.waitForFirstLook(until: $0, afterAnswer: $1) }
            }
        }
    }

    static let uses: [BackupUse] = [.archive, .backups]

    /// As a disk that answers after some seconds: the look may take longer than the start waits for a disk
    /// that does not answer.
    @Test(arguments: uses)
    func lookBehindALateAnswerRefusesTheStart(use: BackupUse) throws {
        let world = try World(use)
        defer { world.disk.answerAlways() }
        world.disk.answer()
        // The second call is the comparison's.
        for _ in 0..<2 { #expect(world.disk.waitForCall()) }
        let call = try ThreadCall("disk") { [disk = world.disk] in disk.answerAlways() }
        #expect(throws: StorageError.self) { try world.waitForFirstLook(.now, Self.patience) }
        #expect(call.value(until: .now + Self.patience) != nil)
    }

    @Test(arguments: uses)
    func diskThatDoesNotAnswerIsNotWaitedFor(use: BackupUse) throws {
        let world = try World(use)
        defer { world.disk.answerAlways() }
        #expect(world.disk.waitForCall())
        #expect(try world.waitForFirstLook(.now, .seconds(3600)) == .unanswered)
        world.disk.answer(2)
        // The third one is of the work behind the look: the thread goes on.
        for _ in 0..<2 { #expect(world.disk.waitForCall()) }
    }

    /// A disk that stops answering in the middle of the look.
    @Test(arguments: uses)
    func diskThatAnswersOnceIsWaitedForUntilItsTimeHasPassed(use: BackupUse) throws {
        let world = try World(use)
        defer { world.disk.answerAlways() }
        world.disk.answer()
        for _ in 0..<2 { #expect(world.disk.waitForCall()) }
        #expect(try world.waitForFirstLook(.now, .zero) == .incomplete)
        world.disk.answer()
        #expect(world.disk.waitForCall(), "the thread goes on")
    }
}
