import CSystem
import PandoBytes

//  What sockets still owe their peers. The chunks of all of a loop's channels live in one array; a channel
//  holds only the first and last index of its own list:
//
//      channel A   first ─▶ [3] shared ─▶ [0] copied        nodes   0    1     2    3
//      channel B   first ─▶ [1] shared                              A₂   B₁   free  A₁
//
//  So queueing a fan-out on a thousand idle sockets allocates nothing once the array has grown, and an idle
//  channel pays eight bytes.

/// Bytes copied from a writer. Grows at its end while it is the last of its queue.
@safe
final class CopiedBytes {
    /// A chunk this big gets a successor instead of growing: growing copies.
    static let growthLimit = 64 << 10

    /// Room that even the smallest one has: an answer of REST, some of the realtime protocol.
    private static let leastCapacity = 512

    private(set) var count = 0
    private(set) var capacity: Int
    private(set) var baseAddress: UnsafeMutableRawPointer

    init(_ bytes: UnsafeRawBufferPointer) {
        capacity = max(Self.leastCapacity, bytes.count)
        unsafe baseAddress = .allocate(byteCount: capacity, alignment: 8)
        _ = unsafe append(bytes)
    }

    deinit {
        unsafe baseAddress.deallocate()
    }

    /// Room up to which it may be filled anew: some tens of answers to one connection. Allocations of 1 KiB
    /// and more are what makes malloc gather its small free chunks (`malloc_consolidate`), so those are
    /// avoided most of all.
    private static let reusableCapacity = 4 << 10

    /// True when it may be filled anew.
    var isReusable: Bool { capacity <= Self.reusableCapacity }

    /// Forgets what it holds.
    func removeAll() {
        count = 0
    }

    /// - Returns: false, having taken nothing, when the bytes belong in a chunk of their own.
    func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return true }
        let needed = count + bytes.count
        if needed > capacity {
            guard needed <= Self.growthLimit else { return false }
            capacity = min(Self.growthLimit, max(needed, capacity * 2))
            let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
            // Room: capacity >= needed > count. The old bytes are ours alone: no send is under way.
            unsafe grown.copyMemory(from: baseAddress, byteCount: count)
            unsafe baseAddress.deallocate()
            unsafe baseAddress = unsafe grown
        }
        // Room: needed <= capacity.
        unsafe (baseAddress + count).copyMemory(from: start, byteCount: bytes.count)
        count = needed
        return true
    }
}

/// One channel's list in the loop's ``ChunkArena``.
struct OutboundQueue {
    fileprivate var first = ChunkArena.noIndex
    fileprivate var last = ChunkArena.noIndex
    var isEmpty: Bool { first == ChunkArena.noIndex }
}

/// The chunks of all of a loop's channels. A channel's list is given and taken as a value.
struct ChunkArena {
    private enum Content {
        case shared(SharedBytes)
        case copied(CopiedBytes)
        case free
    }

    private struct Node {
        var content: Content
        /// Bytes the kernel has already taken. Less than the content's count.
        var offset: Int
        var next: Int32
    }

    fileprivate static var noIndex: Int32 { -1 }
    /// An array that grew beyond this is given back once it is unused.
    private static var keptNodeCount: Int { 16 << 10 }

    /// Bytes of unused copies that are kept to be filled anew.
    private static var spareByteLimit: Int { 128 << 10 }

    /// Room of all copies that are queued, and of what says who is owed them, in bytes.
    private(set) var copiedByteCount = 0
    private var nodes: [Node] = []
    private var spares: [CopiedBytes] = []
    private var spareByteCount = 0
    private var firstFree = noIndex
    private var usedCount = 0

    /// Queues a reference. Empty bytes are not queued.
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
                copiedByteCount += chunk.capacity - capacity
                return queue
            }
        }
        return link(.copied(unsafe copy(bytes)), to: queue)
    }

    /// Queues a copy before everything else: what is left of corked bytes, which were written first.
    mutating func prepend(_ bytes: UnsafeRawBufferPointer, to queue: OutboundQueue) -> OutboundQueue {
        guard bytes.count > 0 else { return queue }
        let index = take(.copied(unsafe copy(bytes)))
        nodes[Int(index)].next = queue.first
        return OutboundQueue(first: index, last: queue.isEmpty ? index : queue.last)
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
            case .free: preconditionFailure("a queue holds a free node")
            }
            unsafe slices[sliceCount] = slice
            unsafe byteCount += slice.count
            sliceCount += 1
            index = node.next
        }
        return (sliceCount - used, byteCount)
    }

    /// Forgets the oldest `byteCount` bytes. The queue must hold as many.
    mutating func consume(_ byteCount: Int, from queue: OutboundQueue) -> OutboundQueue {
        var queue = queue
        var rest = byteCount
        while rest > 0 {
            let index = Int(queue.first)
            let available: Int
            switch nodes[index].content {
            case .shared(let bytes): available = bytes.count - nodes[index].offset
            case .copied(let bytes): available = bytes.count - nodes[index].offset
            case .free: preconditionFailure("a queue holds a free node")
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
        copiedByteCount -= MemoryLayout<Node>.stride
        if case .copied(let chunk) = nodes[Int(index)].content {
            copiedByteCount -= chunk.capacity
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
        return OutboundQueue(first: next, last: next == Self.noIndex ? next : queue.last)
    }

    private mutating func copy(_ bytes: UnsafeRawBufferPointer) -> CopiedBytes {
        guard bytes.count <= CopiedBytes.growthLimit, let spare = spares.popLast() else {
            return unsafe CopiedBytes(bytes)
        }
        spareByteCount -= spare.capacity
        // It grows as every chunk does, and is empty: it takes them.
        _ = unsafe spare.append(bytes)
        return spare
    }

    private mutating func link(_ content: Content, to queue: OutboundQueue) -> OutboundQueue {
        let index = take(content)
        if !queue.isEmpty { nodes[Int(queue.last)].next = index }
        return OutboundQueue(first: queue.isEmpty ? index : queue.first, last: index)
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
            case .free: preconditionFailure("a queue holds a free node")
            }
            index = node.next
        }
        return bytes
    }

    /// Bytes that are kept for this queue alone. O(chunks).
    func copiedByteCount(of queue: OutboundQueue) -> Int {
        var (total, index) = (0, queue.first)
        while index != Self.noIndex {
            total += MemoryLayout<Node>.stride
            if case .copied(let chunk) = nodes[Int(index)].content { total += chunk.capacity }
            index = nodes[Int(index)].next
        }
        return total
    }

    private mutating func take(_ content: Content) -> Int32 {
        usedCount += 1
        copiedByteCount += MemoryLayout<Node>.stride
        if case .copied(let chunk) = content { copiedByteCount += chunk.capacity }
        let node = Node(content: content, offset: 0, next: Self.noIndex)
        if firstFree == Self.noIndex {
            nodes.append(node)
            return Int32(nodes.count - 1)
        }
        let index = firstFree
        firstFree = nodes[Int(index)].next
        nodes[Int(index)] = node
        return index
    }
}
