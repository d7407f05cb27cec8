import Synchronization

/// What zlib's streams take, by the arithmetic of zconf.h ("The memory requirements for deflate are").
package enum CompressionMemory {
    /// zlib's state beside the window and the tables: 5.8 KiB for deflating and 7 KiB for inflating in zlib
    /// 1.2.13, 9.4 KiB for inflating in later versions.
    static let stateByteCount = 12 << 10

    /// Most memory of a ``Deflater``, in bytes.
    /// - Parameters:
    ///   - windowBits: 8…15; zlib needs two bytes for the window, and two for its chains, for each byte of
    ///     it.
    ///   - memoryLevel: 1…9; each level doubles the hash table and the buffer of pending symbols.
    package static func deflaterByteCount(windowBits: Int, memoryLevel: Int) -> Int {
        (1 << (CompressionCoding.supported(windowBits: windowBits) + 2))
            + (1 << (min(9, max(1, memoryLevel)) + 9)) + stateByteCount
    }

    /// Most memory of an ``Inflater``, in bytes: the window and the state.
    /// - Parameter windowBits: 8…15.
    package static func inflaterByteCount(windowBits: Int) -> Int {
        (1 << CompressionCoding.supported(windowBits: windowBits)) + stateByteCount
    }
}

/// Bounds the memory of all streams that belong to single connections. A connection that gets nothing goes on
/// without compression. Any thread.
package final class CompressionBudget: Sendable {
    /// Most bytes that are granted at the same time.
    package let byteLimit: Int
    private let used = Atomic<Int>(0)

    /// - Parameter byteLimit: At least 0.
    package init(byteLimit: Int) {
        self.byteLimit = max(0, byteLimit)
    }

    /// Bytes that are granted now.
    package var usedByteCount: Int { used.load(ordering: .relaxed) }

    /// Grants memory until the grant is destroyed.
    /// - Parameter byteCount: At least 0.
    /// - Returns: nil where that much is not left. O(1), no lock.
    package func grant(_ byteCount: Int) -> Grant? {
        var current = used.load(ordering: .relaxed)
        while byteCount <= byteLimit - current {
            let (exchanged, original) = used.compareExchange(
                expected: current, desired: current + byteCount, ordering: .relaxed)
            if exchanged { return Grant(byteCount, of: self) }
            current = original
        }
        return nil
    }

    /// Memory that may be used as long as this value lives.
    package struct Grant: ~Copyable, Sendable {
        /// How much was granted.
        package let byteCount: Int
        private let budget: CompressionBudget

        fileprivate init(_ byteCount: Int, of budget: CompressionBudget) {
            self.byteCount = byteCount
            self.budget = budget
        }

        deinit {
            budget.used.subtract(byteCount, ordering: .relaxed)
        }
    }
}
