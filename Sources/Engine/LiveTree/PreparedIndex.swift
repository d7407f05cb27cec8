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
/// A class: a window is large, and the engine, which would hold it inline, is copied for each decision.
final class PreparedWindow: Sendable {
    let path: Path
    let window: Window

    init(path: Path, window: Window) {
        self.path = path
        self.window = window
    }
}
