import PandoBytes

// The memory of a node: the blocks of the heap that it takes, which may be many times its JSON (an object of
// one child has 12 bytes of JSON and a page of 80), or twice as much (a text of 40 bytes has a block of 64).

extension Node {
    /// About how many bytes of the heap the node takes, where nothing else has a part of it. O(nodes).
    package var memoryByteCount: Int {
        switch self {
        case .empty, .boolean, .integer, .double: 0
        case .string(let text): text.memoryByteCount
        case .object(let children): children.root.memoryByteCount
        case .prioritized(let box):
            HeapBlock.byteCount(
                for: HeapBlock.objectHeader + MemoryLayout<Priority>.stride + MemoryLayout<Node>.stride)
                + box.priority.memoryByteCount + box.node.memoryByteCount
        }
    }
}

extension Children.Page {
    fileprivate var memoryByteCount: Int {
        switch self {
        case .entries(let entries):
            entries.reduce(HeapBlock.byteCount(ofArray: entries)) {
                $0 + $1.key.memoryByteCount + $1.node.memoryByteCount
            }
        case .refs(let refs):
            refs.reduce(HeapBlock.byteCount(ofArray: refs)) { $0 + $1.page.memoryByteCount }
        }
    }
}

extension Key {
    fileprivate var memoryByteCount: Int {
        guard let long else { return 0 }
        return HeapBlock.byteCount(for: HeapBlock.objectHeader + MemoryLayout<Int>.size + long.count)
    }
}

extension Priority {
    fileprivate var memoryByteCount: Int {
        if case .string(let text) = self { text.memoryByteCount } else { 0 }
    }
}

extension Text {
    fileprivate var memoryByteCount: Int {
        let byteCount = heapByteCount
        return byteCount == 0 ? 0 : HeapBlock.byteCount(for: HeapBlock.objectHeader + byteCount)
    }
}

/// What the allocator takes for an object.
private enum HeapBlock {
    /// In front of the members of each object: its type and its reference count.
    static let objectHeader = 16
    /// In front of the elements of each array: the same, its count and its capacity.
    static let arrayHeader = 32
    /// glibc's own word of each block, the multiple of which its size is, and the smallest block (malloc(3)).
    static let word = 8
    static let step = 16
    static let least = 32

    static func byteCount(for objectByteCount: Int) -> Int {
        max(least, (objectByteCount + word + step - 1) / step * step)
    }

    static func byteCount<Element>(ofArray array: ContiguousArray<Element>) -> Int {
        // The empty array is one object of the process.
        guard array.capacity > 0 else { return 0 }
        return byteCount(for: arrayHeader + array.capacity * MemoryLayout<Element>.stride)
    }
}
