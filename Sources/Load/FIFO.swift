/// A queue in a ring: both ends are O(1), and its memory is used again.
///
/// A class over memory of its own, all of whose properties are words that are read and written whole: every
/// operation passes such a queue, and an array that is a class's property is asked each time whether it is
/// held by one alone.
@safe
final class FIFO<Element: BitwiseCopyable> {
    private static var leastCapacity: Int { 4 }

    /// Room for ``capacity`` elements, of which the ``count`` from ``head`` on, around the end, have a value.
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
        let room = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        if let items = unsafe items {
            for index in 0..<count {
                // In bounds on both sides: `index` is below the old capacity, and that below the new one.
                unsafe (room + index).initialize(to: items[(head &+ index) & (capacity &- 1)])
            }
            unsafe items.deallocate()
        }
        unsafe items = unsafe room
        (capacity, head) = (larger, 0)
    }
}
