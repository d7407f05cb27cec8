import PandoEngine
import PandoREST
import PandoStorage
import PandoTree
import PandoWire

/// Whether a loop may process a burst of messages itself (``DatabaseExecutor``): the part of the decision
/// that needs the databases. What the messages alone show is decided once, when they are made
/// (``DatabaseMessage/isLight``).
struct LightWork {
    private let processor: CommandProcessor
    /// What the messages so far may take in the journal, generously; the space is only asked about.
    private var journalByteCount = 0

    /// Data up to this size is replaced, weighed and freed by a loop: some tens of microseconds.
    private static let lightlyReplacedByteCount = 64 << 10
    /// Locations that one write of a loop may have.
    private static let locationLimit = 32
    /// Bytes of journal for each byte of a request, and for each location beside.
    private static let journalBytesPerByte = 4
    private static let journalBytesPerLocation = 1024

    private init(_ processor: CommandProcessor) {
        self.processor = processor
    }

    /// Whether no message may take long, little is replaced, and the journal has space without waiting.
    static func isLight(_ batch: [DatabaseMessage], for processor: CommandProcessor) -> Bool {
        var work = LightWork(processor)
        for message in batch {
            guard message.isLight, work.replacesLittle(message) else { return false }
        }
        return processor.journal.hasReservedSpace(forWriteOf: work.journalByteCount)
    }

    private mutating func replacesLittle(_ message: DatabaseMessage) -> Bool {
        switch message {
        case .reply(let session, _, _): return !isLagging(session)
        case .request(let request):
            guard !isLagging(request.session) else { return false }
            let database = processor.sessions[request.session]?.database
            switch request.action {
            case .put(let write), .transaction(let write, _, _):
                return replacesLittle(CollectionOfOne(write.target), in: database, request.byteCount)
            case .merge(_, let entries):
                return replacesLittle(entries.lazy.map(\.target), in: database, request.byteCount)
            default:
                journalByteCount +=
                    Self.journalBytesPerByte * request.byteCount + Self.journalBytesPerLocation
                return true
            }
        case .rest(_, let call, let byteCount):
            guard case .data(let request, let body?, _) = call.action,
                case .data(let target) = request.location
            else { return true }
            let database = processor.databases[call.namespace]
            if case .update(let update) = body {
                return replacesLittle(update.writes.lazy.map(\.target), in: database, byteCount)
            }
            return request.method == .post
                || replacesLittle(CollectionOfOne(target), in: database, byteCount)
        default: return true
        }
    }

    /// Whether the session has missed pushes, which come before a reply: they may be many.
    private func isLagging(_ session: SessionID) -> Bool {
        !processor.coalescer.isEmpty && processor.coalescer.missedChanges(of: session) != nil
    }

    private mutating func replacesLittle(
        _ targets: some Collection<Target>, in database: StoredDatabase?, _ byteCount: Int
    ) -> Bool {
        journalByteCount +=
            Self.journalBytesPerByte * byteCount + targets.count * Self.journalBytesPerLocation
        guard targets.count <= Self.locationLimit, let database else { return targets.count == 0 }
        return targets.allSatisfy {
            !database.engine.tree.root[$0.path].isHeavier(than: Self.lightlyReplacedByteCount)
        }
    }
}
