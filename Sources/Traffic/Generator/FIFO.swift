/// A ring buffer: O(1) at both ends, and its memory is reused.
///
/// A class with memory of its own instead of an array: every operation passes such a queue, and each change
/// of an array that is a property of a class checks whether the array is uniquely referenced.
@safe
final class FIFO<Element: BitwiseCopyable> {
    private static var leastCapacity: Int { 4 }

    /// Memory for ``capacity`` elements. The ``count`` elements from ``head`` on are initialized; behind the
    /// last place comes the first.
    private var items: UnsafeMutablePointer<Element>?
    /// 0 or a power of two.
    private var capacity = 0
    private var head = 0
    private(set) var count = 0

    init() {}

    deinit {
        unsafe items?.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    var first: Element? {
        guard count > 0, let items = unsafe items else { return nil }
        // In bounds: `head` is below the capacity, and an element is there.
        return unsafe items[head]
    }

    func append(_ element: Element) {
        if count == capacity { grow() }
        guard let items = unsafe items else { return }
        // In bounds: masked by a power of two. Free: fewer elements than places.
        unsafe (items + ((head &+ count) & (capacity &- 1))).initialize(to: element)
        count &+= 1
    }

    func popFirst() -> Element? {
        guard let element = first else { return nil }
        head = (head &+ 1) & (capacity &- 1)
        count &-= 1
        return element
    }

    private func grow() {
        let larger = max(Self.leastCapacity, capacity * 2)
        let memory = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        if let items = unsafe items {
            for index in 0..<count {
                // In bounds on both sides: `index` is below the old capacity, and that below the new one.
                unsafe (memory + index).initialize(to: items[(head &+ index) & (capacity &- 1)])
            }
            unsafe items.deallocate()
        }
        unsafe items = unsafe memory
        (capacity, head) = (larger, 0)
    }
}
