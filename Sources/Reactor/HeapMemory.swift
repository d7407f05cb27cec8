import COperatingSystem
import Synchronization

/// Bytes of memory that this process may use: those of the machine, or fewer if its control group (cgroups 1
/// and 2) has fewer.
package func usableMemoryByteCount() -> Int { Int(clamping: pando_usable_memory_bytes()) }

/// Memory of the whole process that was freed and that the allocator has not given back to the system.
package enum FreedMemory {
    /// Bytes that the allocator holds. O(free blocks), and holds each arena's lock while it visits that
    /// arena's (mallinfo2(3)): milliseconds after much was deleted, in which threads that allocate there
    /// wait.
    package static var byteCount: Int { Int(clamping: pando_heap_free_bytes()) }

    /// Bytes that the process has in memory, the heap and everything else; 0 where the system does not tell.
    package static var residentByteCount: Int { Int(clamping: pando_resident_bytes()) }

    /// Gives unused pages back to the system (malloc_trim(3)). Takes milliseconds, and holds each arena's
    /// lock for that time.
    package static func release() { pando_heap_trim() }
}

/// The heaps (arenas) from which threads allocate.
///
/// glibc does not merge small blocks with their neighbours when they are freed. It does so for all of them
/// when the next block of 1 KiB or more is allocated in that heap, under its lock: after the removal of a
/// million objects the thread that happens to do that stands still for a third of a second. So a thread that
/// frees very many has them merged after every few thousand.
package enum Heaps {
    private struct Token {
        let number: Int
        /// The address of a block.
        var block: UInt64
    }

    private static let tokens = Mutex<[Token]>([])
    private static let lastNumber = Atomic<Int>(0)

    /// Notes the heap from which the calling thread allocates.
    /// - Returns: A number for ``remove(_:)``; nil where there is no memory.
    @discardableResult
    package static func addOfThisThread() -> Int? {
        let block = pando_heap_token()
        guard block != 0 else { return nil }
        let number = lastNumber.add(1, ordering: .relaxed).newValue
        tokens.withLock { $0.append(Token(number: number, block: block)) }
        return number
    }

    /// The thread ends.
    package static func remove(_ number: Int) {
        let token = tokens.withLock { tokens in
            tokens.firstIndex { $0.number == number }.map { tokens.remove(at: $0) }
        }
        if let token { pando_heap_token_free(token.block) }
    }

    /// Any thread: merges the small blocks that were freed, in all heaps. O(blocks freed since the last
    /// call), some 50 ns each, and under the lock of each heap.
    package static func merge() {
        tokens.withLock { tokens in
            // One thread at a time uses a block, under this lock.
            for index in tokens.indices { tokens[index].block = pando_heap_merge(tokens[index].block) }
        }
    }
}
