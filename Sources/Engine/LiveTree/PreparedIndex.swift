import PandoTree

/// An index of data that is about to be written.
struct PreparedIndex: Sendable {
    let path: Path
    let node: Node
    let index: KeptIndex
    /// Bytes that it takes.
    let byteCount: Int

    init(path: Path, node: Node, index: KeptIndex) {
        self.path = path
        self.node = node
        self.index = index
        byteCount = index.byteCount
    }
}

/// A window that was made before its listen is executed.
///
/// An object, since a window is large: the engine is passed on by its size for each command.
final class PreparedWindow: Sendable {
    let path: Path
    let window: Window

    init(path: Path, window: Window) {
        self.path = path
        self.window = window
    }
}
