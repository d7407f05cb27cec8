import COperatingSystem
import PandoBytes

//  Output that was not sent yet. The chunks of all of a loop's channels are linked lists in one array; a
//  channel holds only the first and last index of its own list, and the bytes that it takes:
//
//      channel A   first ─▶ [3] shared ─▶ [0] copied        nodes   0    1     2    3
//      channel B   first ─▶ [1] shared                              A₂   B₁   free  A₁
//
//  So queueing a fan-out on a thousand idle sockets allocates nothing once the array has grown, and an idle
//  channel needs sixteen bytes.

/// A chunk of bytes that were copied from the writer. Bytes are appended while it is the last chunk of its
/// queue.
@safe
final class CopiedBytes {
    /// A chunk does not grow beyond this: a new one follows, since growing copies.
    static let growthLimit = 64 << 10

    /// The capacity of the smallest chunk: one REST response, or some responses of the realtime protocol.
    private static let minimumCapacity = 512

    private(set) var count = 0
    private(set) var capacity: Int
    private(set) var baseAddress: UnsafeMutableRawPointer

    init(_ bytes: UnsafeRawBufferPointer) {
        capacity = max(Self.minimumCapacity, bytes.count)
        unsafe baseAddress = .allocate(byteCount: capacity, alignment: 8)
        _ = unsafe append(bytes)
    }

    deinit {
        unsafe baseAddress.deallocate()
    }

    /// Chunks up to this capacity are reused: some tens of responses on one connection. Each allocation of 1
    /// KiB and more makes malloc merge its small free blocks (`malloc_consolidate`), so reuse saves most
    /// there.
    private static let reusableCapacity = 4 << 10

    /// Whether it may be reused.
    var isReusable: Bool { capacity <= Self.reusableCapacity }

    func removeAll() {
        count = 0
    }

    /// - Returns: false, with nothing appended, when the bytes need a new chunk.
    func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return true }
        let needed = count + bytes.count
        if needed > capacity {
            guard needed <= Self.growthLimit else { return false }
            capacity = min(Self.growthLimit, max(needed, capacity * 2))
            let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
            // In bounds: capacity >= needed > count. No one else has the old bytes: no send is under way.
            unsafe grown.copyMemory(from: baseAddress, byteCount: count)
            unsafe baseAddress.deallocate()
            unsafe baseAddress = unsafe grown
        }
        // In bounds: needed <= capacity.
        unsafe (baseAddress + count).copyMemory(from: start, byteCount: bytes.count)
        count = needed
        return true
    }
}

/// One channel's list in the loop's ``ChunkArena``.
struct OutboundQueue {
    fileprivate var first = ChunkArena.noIndex
    fileprivate var last = ChunkArena.noIndex
    /// Bytes of memory of its copies and nodes.
    fileprivate(set) var copiedByteCount = 0
    var isEmpty: Bool { first == ChunkArena.noIndex }
}

/// The chunks of all of a loop's channels. Functions take a channel's list as a value and return the new one.
struct ChunkArena {
    private enum Content {
        case shared(SharedBytes)
        case copied(CopiedBytes)
        case free
    }

    private struct Node {
        var content: Content
        /// Bytes that the kernel has accepted already. Less than the content's count.
        var offset: Int
        var next: Int32
    }

    fileprivate static var noIndex: Int32 { -1 }
    /// A larger array is freed once no node is used.
    private static var keptNodeCount: Int { 16 << 10 }

    /// Most capacity, in bytes, of the chunks that are kept for reuse.
    private static var spareByteLimit: Int { 128 << 10 }

    /// Bytes of memory of all queued copies and of all nodes in use.
    private(set) var copiedByteCount = 0
    private var nodes: [Node] = []
    /// Empty chunks for reuse.
    private var spares: [CopiedBytes] = []
    private var spareByteCount = 0
    private var firstFree = noIndex
    private var usedCount = 0

    /// Queues a reference to shared bytes. Empty bytes are not queued. O(1).
    mutating func append(_ bytes: SharedBytes, to queue: OutboundQueue) -> OutboundQueue {
        guard bytes.count > 0 else { return queue }
        return link(.shared(bytes), to: queue)
    }

    /// Queues a copy.
    mutating func append(_ bytes: UnsafeRawBufferPointer, to queue: OutboundQueue) -> OutboundQueue {
        guard bytes.count > 0 else { return queue }
        if queue.last != Self.noIndex, case .copied(let chunk) = nodes[Int(queue.last)].content {
            let capacity = chunk.capacity
            if unsafe chunk.append(bytes) {
                let growth = chunk.capacity - capacity
                copiedByteCount += growth
                var queue = queue
                queue.copiedByteCount += growth
                return queue
            }
        }
        return link(.copied(unsafe copy(bytes)), to: queue)
    }

    /// Queues a copy in front of the queue: for what is left of corked bytes, which were written first.
    mutating func prepend(_ bytes: UnsafeRawBufferPointer, to queue: OutboundQueue) -> OutboundQueue {
        guard bytes.count > 0 else { return queue }
        let index = addNode(.copied(unsafe copy(bytes)))
        nodes[Int(index)].next = queue.first
        return OutboundQueue(
            first: index, last: queue.isEmpty ? index : queue.last,
            copiedByteCount: queue.copiedByteCount + byteCount(ofNode: index))
    }

    /// Lists the queue's bytes, oldest first. The slices are valid until the queue changes.
    /// - Returns: How many slices of `slices` were filled from `used` on, and their bytes.
    func gather(
        _ queue: OutboundQueue, into slices: UnsafeMutableBufferPointer<pando_slice>, from used: Int
    ) -> (sliceCount: Int, byteCount: Int) {
        var (sliceCount, byteCount) = (used, 0)
        var index = queue.first
        while index != Self.noIndex, sliceCount < slices.count {
            let node = nodes[Int(index)]
            let slice: pando_slice
            switch node.content {
            case .shared(let bytes):
                unsafe slice = pando_slice(
                    base: bytes.baseAddress + node.offset, count: bytes.count - node.offset)
            case .copied(let bytes):
                unsafe slice = pando_slice(
                    base: bytes.baseAddress + node.offset, count: bytes.count - node.offset)
            case .free: preconditionFailure("a queue has a free node")
            }
            unsafe slices[sliceCount] = slice
            unsafe byteCount += slice.count
            sliceCount += 1
            index = node.next
        }
        return (sliceCount - used, byteCount)
    }

    /// Removes the oldest `byteCount` bytes. The queue must hold as many.
    mutating func removeFirst(_ byteCount: Int, from queue: OutboundQueue) -> OutboundQueue {
        var queue = queue
        var rest = byteCount
        while rest > 0 {
            let index = Int(queue.first)
            let available: Int
            switch nodes[index].content {
            case .shared(let bytes): available = bytes.count - nodes[index].offset
            case .copied(let bytes): available = bytes.count - nodes[index].offset
            case .free: preconditionFailure("a queue has a free node")
            }
            if rest < available {
                nodes[index].offset += rest
                return queue
            }
            rest -= available
            queue = removeFirst(of: queue)
        }
        return queue
    }

    /// - Returns: An empty queue.
    mutating func removeAll(of queue: OutboundQueue) -> OutboundQueue {
        var queue = queue
        while !queue.isEmpty { queue = removeFirst(of: queue) }
        return queue
    }

    private mutating func removeFirst(of queue: OutboundQueue) -> OutboundQueue {
        let index = queue.first
        let byteCount = byteCount(ofNode: index)
        copiedByteCount -= byteCount
        if case .copied(let chunk) = nodes[Int(index)].content {
            if chunk.isReusable, spareByteCount + chunk.capacity <= Self.spareByteLimit {
                spareByteCount += chunk.capacity
                chunk.removeAll()
                spares.append(chunk)
            }
        }
        let next = nodes[Int(index)].next
        nodes[Int(index)] = Node(content: .free, offset: 0, next: firstFree)
        firstFree = index
        usedCount -= 1
        if usedCount == 0, nodes.count > Self.keptNodeCount {
            nodes = []
            firstFree = Self.noIndex
        }
        return OutboundQueue(
            first: next, last: next == Self.noIndex ? next : queue.last,
            copiedByteCount: queue.copiedByteCount - byteCount)
    }

    private mutating func copy(_ bytes: UnsafeRawBufferPointer) -> CopiedBytes {
        guard bytes.count <= CopiedBytes.growthLimit, let spare = spares.popLast() else {
            return unsafe CopiedBytes(bytes)
        }
        spareByteCount -= spare.capacity
        // Never refused: it is empty, and the bytes are at most `growthLimit`.
        _ = unsafe spare.append(bytes)
        return spare
    }

    private mutating func link(_ content: Content, to queue: OutboundQueue) -> OutboundQueue {
        let index = addNode(content)
        if !queue.isEmpty { nodes[Int(queue.last)].next = index }
        return OutboundQueue(
            first: queue.isEmpty ? index : queue.first, last: index,
            copiedByteCount: queue.copiedByteCount + byteCount(ofNode: index))
    }

    /// A copy of the queue's bytes. O(bytes).
    func bytes(of queue: OutboundQueue) -> [UInt8] {
        var bytes: [UInt8] = []
        var index = queue.first
        while index != Self.noIndex {
            let node = nodes[Int(index)]
            // In bounds: the offset is less than the content's count. Alive: the node holds the content.
            switch node.content {
            case .shared(let shared):
                unsafe bytes.append(
                    contentsOf: UnsafeRawBufferPointer(
                        start: shared.baseAddress + node.offset, count: shared.count - node.offset))
            case .copied(let copied):
                unsafe bytes.append(
                    contentsOf: UnsafeRawBufferPointer(
                        start: copied.baseAddress + node.offset, count: copied.count - node.offset))
            case .free: preconditionFailure("a queue has a free node")
            }
            index = node.next
        }
        return bytes
    }

    /// Bytes of memory of a node and of the copy that it holds.
    private func byteCount(ofNode index: Int32) -> Int {
        guard case .copied(let chunk) = nodes[Int(index)].content else { return MemoryLayout<Node>.stride }
        return MemoryLayout<Node>.stride + chunk.capacity
    }

    private mutating func addNode(_ content: Content) -> Int32 {
        usedCount += 1
        let node = Node(content: content, offset: 0, next: Self.noIndex)
        let index: Int32
        if firstFree == Self.noIndex {
            index = Int32(nodes.count)
            nodes.append(node)
        } else {
            index = firstFree
            firstFree = nodes[Int(index)].next
            nodes[Int(index)] = node
        }
        copiedByteCount += byteCount(ofNode: index)
        return index
    }

    /// Checks all invariants, for tests. Traps if one is violated. O(nodes).
    /// - Parameter queues: All queues in this arena.
    func checkInvariants(_ queues: [OutboundQueue]) {
        var (used, bytes) = (0, 0)
        for queue in queues {
            var (index, last, own) = (queue.first, Self.noIndex, 0)
            while index != Self.noIndex {
                let node = nodes[Int(index)]
                switch node.content {
                case .shared(let shared): precondition((0..<shared.count).contains(node.offset))
                case .copied(let copied): precondition((0..<copied.count).contains(node.offset))
                case .free: preconditionFailure("a queue has a free node")
                }
                own += byteCount(ofNode: index)
                (last, index, used) = (index, node.next, used + 1)
            }
            precondition(queue.copiedByteCount == own, "a queue's count of bytes is wrong")
            precondition(queue.last == last, "a queue's last node is wrong")
            bytes += own
        }
        precondition(used == usedCount, "the count of used nodes is wrong")
        precondition(bytes == copiedByteCount, "the count of bytes is wrong")
        var (free, freeCount) = (firstFree, 0)
        while free != Self.noIndex {
            guard case .free = nodes[Int(free)].content else {
                preconditionFailure("a used node is in the free list")
            }
            (free, freeCount) = (nodes[Int(free)].next, freeCount + 1)
        }
        precondition(used + freeCount == nodes.count, "a node is neither used nor free")
        precondition(spares.allSatisfy { $0.count == 0 && $0.isReusable })
        precondition(
            spares.reduce(0) { $0 + $1.capacity } == spareByteCount, "the count of spare bytes is wrong")
        precondition(spareByteCount <= Self.spareByteLimit)
    }
}
