import Logging
import PandoJournal
import PandoTree

/// What a restore test has found.
package struct RestoreTestReport: Sendable {
    /// One database of the restored directory.
    package struct Database: Sendable {
        package var name: String
        /// Values that are not objects.
        package var leafCount: Int
    }

    /// Which state was restored.
    package var summary: BackupSummary
    /// Sorted by name.
    package var databases: [Database]
    /// Of everything that the directory holds (``SnapshotDigest``).
    package var digest: String

    /// Restores a state into a directory, opens that as a server does, and compares what it holds.
    /// - Parameters:
    ///   - state: What was read from a backup; dropped as soon as it is restored, so that it is in memory
    ///     once.
    ///   - path: A directory that does not exist, or is empty. It stays.
    /// - Throws: ``StorageError``; `.badData` where the restored directory holds something else.
    package init(
        restoring state: inout RecoveredState, from summary: BackupSummary, in path: String,
        directoryID: DirectoryID,
        logger: Logger, progress: (_ byteCount: Int) -> Void = { _ in }
    ) throws(StorageError) {
        let expected = SnapshotDigest.text(of: state)
        let leafCounts = state.leafCounts
        _ = try DirectoryRestore.restore(
            state, from: summary, to: path, mayReplace: false, directoryID: directoryID, progress: progress)
        state.startOver()
        var opened = RecoveredState(access: .locked)
        _ = try DataDirectory.open(path, into: &opened, endsSessions: false, logger: logger)
        let (found, foundCounts) = (SnapshotDigest.text(of: opened), opened.leafCounts)
        guard found == expected, foundCounts == leafCounts else {
            throw .badData(
                "what was restored is not what was backed up: digest \(found), expected \(expected); "
                    + "leaves \(foundCounts), expected \(leafCounts)")
        }
        self.summary = summary
        databases = leafCounts.sorted { $0.key < $1.key }.map { .init(name: $0.key, leafCount: $0.value) }
        digest = found
    }
}

extension RecoveredState {
    /// How many leaves each database has, by its name. O(nodes).
    fileprivate var leafCounts: [String: Int] {
        Dictionary(uniqueKeysWithValues: databases.values.map { ($0.name, $0.engine.root.leafCount) })
    }
}

extension Node {
    /// Values that are not objects; 0 for an empty tree. O(nodes).
    fileprivate var leafCount: Int {
        guard case .object = withoutPriority else { return isEmpty ? 0 : 1 }
        var count = 0
        children.forEach { _, child in
            count += child.leafCount
            return true
        }
        return count
    }
}
