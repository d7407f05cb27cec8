import PandoEngine
import PandoTime
import PandoTree

// Which path patterns cost most (``UsageTable``): one message of many is measured.

extension CommandProcessor {
    /// A message that is being measured.
    struct UsageMeasurement {
        fileprivate let subject: Subject
        fileprivate let began: MonotonicTime
        fileprivate let sentByteCount: Int
    }

    /// Bytes of the data of a read that are weighed: about a hundred nodes, some microseconds. The others are
    /// taken to be like these.
    static let weighedByteLimit = 4 << 10
    /// Sessions whose listens are looked at for the number of listeners.
    private static let countedSessionLimit = 1024

    /// Begins to measure a message; nil for one that is about no location.
    func beginUsage(of message: borrowing DatabaseMessage) -> UsageMeasurement? {
        guard let subject = subject(of: message) else { return nil }
        return UsageMeasurement(
            subject: subject, began: environment.monotonicTime, sentByteCount: encoder.sentByteCount)
    }

    /// Counts what was measured, for all messages for which it stands.
    /// - Parameter measurement: Nil for a message that is not counted.
    /// - Returns: Messages until the next one that is measured.
    func endUsage(_ measurement: UsageMeasurement?) -> Int {
        let now = environment.monotonicTime
        let weight = Double(usageSampler.interval)
        if let measurement { count(measurement, at: now, weight) }
        return usageSampler.next(at: now)
    }

    private func count(_ measurement: UsageMeasurement, at now: MonotonicTime, _ weight: Double) {
        let subject = measurement.subject
        let database = databases[subject.database]
        var sentByteCount = max(0, encoder.sentByteCount - measurement.sentByteCount)
        if subject.isRead, subject.order == nil, !subject.isOfChildren, let database {
            // What is printed by other threads is not encoded yet.
            sentByteCount = max(
                sentByteCount,
                database.engine.root[subject.path].estimatedWeight(weighing: Self.weighedByteLimit))
        }
        let isUnindexed = lacksIndex(subject)
        usage.add(SlowOperations.pattern(of: subject.path), of: subject.database, at: now) { entry in
            switch subject.kind {
            case .get, .restRead: entry.reads += weight
            case .listen, .restStream: entry.listens += weight
            case .put, .merge, .transaction, .onDisconnect, .restWrite: entry.writes += weight
            case .unlisten, .other, .restOther: break
            }
            if isUnindexed { entry.unindexedQueries += weight }
            entry.receivedBytes += weight * Double(subject.byteCount)
            entry.sentBytes += weight * Double(sentByteCount)
            entry.busySeconds += weight * ((now - measurement.began) / .seconds(1))
        }
    }

    /// Which path patterns cost most. Makes no text of what clients have sent (``perform(_:)``).
    /// - Complexity: O(patterns + sessions that are looked at × locations that are named of each).
    var usageSnapshot: UsageSnapshot {
        var snapshot = UsageSnapshot()
        snapshot.usage = usage.rates(at: environment.monotonicTime)
        let (found, count) = sessions.some(atMost: Self.countedSessionLimit)
        snapshot.sessionCount = count
        snapshot.listens = found.map { id, session in
            let database = session.database
            return UsageSnapshot.Listens(
                database: database.name, count: database.engine.tree.listenCount(of: id),
                paths: database.engine.tree.listenPaths(of: id, atMost: DatabaseStatistics.pathLimit))
        }
        return snapshot
    }
}

extension Node {
    /// About how many bytes the node's JSON has, by its first children.
    /// - Complexity: O(`limit`), however large the node is.
    func estimatedWeight(weighing limit: Int) -> Int {
        guard case .object(let children) = withoutPriority else { return weight(upTo: limit) }
        var (left, weighedCount) = (limit, 0)
        children.forEach { key, child in
            left -= key.utf8Count + 4
            _ = child.weigh(&left)
            weighedCount += 1
            return left >= 0
        }
        let byteCount = limit - left
        guard weighedCount < children.count else { return byteCount }
        let (product, overflows) = byteCount.multipliedReportingOverflow(by: children.count)
        return overflows ? .max : product / weighedCount
    }
}

extension CommandProcessor.Subject {
    fileprivate var isRead: Bool {
        switch kind {
        case .get, .listen, .restRead, .restStream: true
        default: false
        }
    }
}
