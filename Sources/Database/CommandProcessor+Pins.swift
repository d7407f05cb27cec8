import PandoEngine
import PandoStorage
import PandoTree

// What outputs that wait hold of the data, and writes replace (``SnapshotPin``).

extension CommandProcessor {
    /// The large messages that were just made for one client hold the data of a location as it is now.
    /// - Parameter path: nil where they hold none.
    func pinOutputs(at path: Path?, in database: StoredDatabase) {
        let outputs = encoder.takePins()
        guard let path else { return }
        for pin in outputs { pins.add(pin, at: path, in: database.id) }
    }

    /// The same for a REST response, where it may take long.
    func pin(_ output: SnapshotPin?, at path: Path, in database: StoredDatabase) {
        guard let output, database.engine.root.value(at: path).isHeavier(than: LargeMessage.byteCount)
        else { return }
        pins.add(output, at: path, in: database.id)
    }

    /// Has workers count what snapshots keep of the data before a write.
    func note(
        _ paths: [Path], _ many: (base: Path, changes: [Change])?, replacing root: Node,
        in database: StoredDatabase
    ) {
        guard let (base, changes) = many else {
            for value in pins.note(paths, replacing: root, in: database.id) { releases.add(value) }
            return
        }
        if let value = pins.note(changes, below: base, replacing: root, in: database.id) {
            releases.add(value)
        }
    }
}
