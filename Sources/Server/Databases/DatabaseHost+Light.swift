import PandoEngine
import PandoREST
import PandoTree
import PandoWire

// What a loop may do itself (``DatabaseExecutor``), as far as the message does not tell
// (``DatabaseMessage/isLight``).

extension DatabaseHost {
    /// Whether a loop may do this: nothing waits before it, no message of it may take long, little is
    /// replaced, and room in the log need not be waited for.
    func isLight(_ batch: [DatabaseMessage]) -> Bool {
        guard backlog.isIdle, endings.isEmpty else { return false }
        var byteCount = 0
        for message in batch {
            guard message.isLight, isLightToReplace(message, &byteCount) else { return false }
        }
        return journal?.hasRoomAhead(for: loggedByteCount + byteCount + configuration.spareRoomByteCount)
            ?? true
    }

    /// - Parameter logByteCount: What it may take in the log is added, generously.
    private func isLightToReplace(_ message: DatabaseMessage, _ logByteCount: inout Int) -> Bool {
        func isLight(_ targets: some Collection<Target>, _ database: Database?, _ byteCount: Int) -> Bool {
            logByteCount += Self.logBytesPerByte * byteCount + targets.count * Self.logBytesPerWrite
            guard targets.count <= Self.lightTargetCount, let database else { return targets.count == 0 }
            return targets.allSatisfy {
                !database.engine.root[$0.path].isHeavier(than: Self.lightlyReplacedByteCount)
            }
        }
        switch message {
        case .request(let request):
            let database = sessions[request.session]?.database
            switch request.action {
            case .put(let target, _, _, _):
                return isLight(CollectionOfOne(target), database, request.byteCount)
            case .merge(_, let entries):
                return isLight(entries.lazy.map(\.target), database, request.byteCount)
            default:
                logByteCount += Self.logBytesPerByte * request.byteCount + Self.logBytesPerWrite
                return true
            }
        case .rest(_, let call, let byteCount):
            guard case .data(let request, let body?, _) = call.action,
                case .data(let target) = request.location
            else {
                return true
            }
            let database = databases[call.namespace ?? NamespaceName.standard]
            if case .update(let updates) = body {
                return isLight(updates.lazy.map(\.target), database, byteCount)
            }
            return request.method == .post || isLight(CollectionOfOne(target), database, byteCount)
        default: return true
        }
    }

    /// Data up to this size is replaced, weighed and freed by a loop: some tens of microseconds.
    private static let lightlyReplacedByteCount = 64 << 10
    /// Places that one write of a loop may have.
    private static let lightTargetCount = 32
    /// Bytes of log for a byte of a request, and for a write beside: generous, room is only asked about.
    private static let logBytesPerByte = 4
    private static let logBytesPerWrite = 1024
}
