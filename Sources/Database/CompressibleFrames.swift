import PandoBytes
import PandoWebSocket
import Synchronization

/// The frames of one message for several receivers, long enough that other forms of them are worth making
/// (``OutputForm``), each once for all loops: compressed, for each deflate window, and as a script. The first
/// loop that has a receiver of a form makes it; never the database thread.
package final class CompressibleFrames: Sendable {
    /// For receivers without compression.
    package let plain: SharedBytes
    private let compressed = Mutex(InlineArray<3, SharedBytes?>(repeating: nil))
    private let script = Mutex<SharedBytes?>(nil)

    /// - Parameter plain: Whole frames.
    package init(_ plain: SharedBytes) {
        self.plain = plain
    }

    /// Bytes from which on frames of several receivers are worth compressing.
    package static let thresholdByteCount = MessageDeflater.Options().thresholdByteCount

    /// The frames for receivers with a deflate window. Blocks on the mutex while another loop makes a form of
    /// them, at most for the time of one compression. A loop whose budget does not suffice sends them as they
    /// are, and leaves the compression to others.
    package func bytes(for window: DeflateWindow, _ compression: SharedCompression) -> SharedBytes {
        compressed.withLock { compressed in
            if let bytes = compressed[window.index] { return bytes }
            guard compression.budget.spend(plain.count) else { return plain }
            let bytes = compression.deflater(for: window).map { compress($0) } ?? plain
            compressed[window.index] = bytes
            return bytes
        }
    }

    private func compress(_ deflater: MessageDeflater) -> SharedBytes {
        let plain = plain
        var frames: [UInt8] = []
        frames.reserveCapacity(plain.count / 2)
        deflater.append(compressing: plain.rawSpan, to: &frames)
        return frames.count < plain.count ? SharedBytes(frames) : plain
    }

    /// The message for receivers by long polling.
    /// - Complexity: O(bytes) the first time, some microseconds for 32 KiB; then O(1).
    package func makeScript() -> SharedBytes {
        let plain = plain
        return script.withLock { script in
            if let script { return script }
            var unwrapper = FrameUnwrapper()
            var writer = ScriptWriter()
            unwrapper.unwrap(plain.rawSpan, into: &writer)
            let made = writer.takePiece()
            script = made
            return made
        }
    }
}

/// The forms of frames that one loop has needed so far. Confined to the loop: receivers behind the first take
/// no lock.
package struct FramesByForm {
    private let frames: CompressibleFrames
    private var compressed = InlineArray<3, SharedBytes?>(repeating: nil)
    private var script: SharedBytes?

    package init(_ frames: CompressibleFrames) {
        self.frames = frames
    }

    /// The frames for a receiver.
    /// - Parameters:
    ///   - form: The receiver's.
    ///   - compression: The loop's; nil where the server does not compress.
    package mutating func bytes(for form: OutputForm, _ compression: SharedCompression?) -> SharedBytes {
        switch form {
        case .frames: return frames.plain
        case .deflated(let window):
            guard let compression else { return frames.plain }
            if let bytes = compressed[window.index] { return bytes }
            let bytes = frames.bytes(for: window, compression)
            compressed[window.index] = bytes
            return bytes
        case .script:
            if let script { return script }
            let made = frames.makeScript()
            script = made
            return made
        }
    }
}
