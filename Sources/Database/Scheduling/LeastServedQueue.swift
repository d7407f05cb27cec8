/// Jobs of many clients for one worker, which may be done in slices. The next slice is of the client that has
/// used the worker least lately: a client that asks for little waits for the slice under way and a few more,
/// not for whole jobs of the others, however many they are.
///
///     group (address) ─▶ served 40 ms ─▶ flow (session) ─▶ served 30 ms   [ job job … ]
///                    │                └▶ flow           ─▶ served 10 ms   [ job ]        the next in this group
///                    └▶ served  2 ms ─▶ flow            ─▶ served  2 ms   [ job ]        the next of all
///
/// First the group that has had least, then the flow in it. Amounts are compared by their power of two. Among
/// equals the job that came first goes on until its flow or group reaches the next power of two. So many
/// equal jobs end one after the other, and do not all wait for the last. Each fourth slice is of the oldest
/// job in the queue, so that every job ends, whatever comes later. Within a flow the order is that of
/// arrival.
///
/// What was served counts half after each ``period``. A value without clock or thread: the caller says how
/// many periods have passed (``advance(toPeriod:)``).
struct LeastServedQueue<Group: Hashable, Flow: Hashable, Item> {
    private struct Account {
        /// Work, of which that in period `n` counts 2ⁿ times: that of earlier periods need not be halved.
        var served = 0.0

        /// The exponent of the largest power of two that is not above ``served``; `Int.min` for zero.
        var magnitude: Int { served.exponent }
    }

    private struct Waiting {
        /// nil when it is done: nothing is kept of it.
        var item: Item?
        var arrival: UInt64
    }

    /// A place in a heap. It may be out of date: it is compared with the present state when it is taken.
    private struct Place<Key> {
        var magnitude: Int
        var arrival: UInt64
        var key: Key

        static func < (left: Self, right: Self) -> Bool {
            (left.magnitude, left.arrival) < (right.magnitude, right.arrival)
        }

        /// What was served is divided by a power of two.
        mutating func lower(by exponent: Int) {
            if magnitude != .min { magnitude -= exponent }
        }
    }

    private struct FlowState {
        let group: Group
        var account = Account()
        var items: [Waiting] = []
        /// Items at the front that are done.
        var doneCount = 0
        /// Whether it has a place in the heap of its group.
        var hasPlace = false

        var first: Waiting? { doneCount < items.count ? items[doneCount] : nil }

        mutating func removeFirst() {
            items[doneCount].item = nil
            doneCount += 1
            guard doneCount * 2 >= items.count else { return }
            items.removeFirst(doneCount)
            doneCount = 0
        }
    }

    private struct GroupState {
        var account = Account()
        var flows: [Place<Flow>] = []
        var hasPlace = false
    }

    /// Each fourth slice is of the oldest job.
    private static var oldestJobInterval: Int { 4 }
    /// Periods after which all numbers are made smaller, far from the largest double.
    private static var rescaledPeriodCount: Int { 512 }

    /// The account of a flow or group without jobs is removed once its work has decayed below this.
    private let forgottenWork: Double
    private var flows: [Flow: FlowState] = [:]
    private var groups: [Group: GroupState] = [:]
    private var heap: [Place<Group>] = []
    /// All jobs in the order in which they came, and some that are done.
    private var arrivals: [(arrival: UInt64, flow: Flow)] = []
    private var firstArrival = 0
    private var arrivalCount: UInt64 = 0
    private var turn = 0
    private var period = 0
    /// The flow whose slice is being done; nil between two slices.
    private var current: Flow?
    /// Jobs that wait, the one under way included.
    private(set) var count = 0

    /// - Parameter forgottenWork: In any unit of work; that of ``finish(work:isDone:)``.
    init(forgottenWork: Int) { self.forgottenWork = Double(forgottenWork) }

    var isEmpty: Bool { count == 0 }

    /// Flows and groups of which something is known.
    var accountCount: Int { flows.count + groups.count }

    // MARK: Adding and removing

    /// Adds a job behind those of its flow. O(log flows).
    mutating func append(_ item: Item, to flow: Flow, of group: Group) {
        arrivalCount += 1
        count += 1
        flows[flow, default: FlowState(group: group)].items.append(
            Waiting(item: item, arrival: arrivalCount))
        arrivals.append((arrivalCount, flow))
        // Many of `arrivals` are of jobs that are done: the oldest jobs are not always done first.
        if arrivals.count > 2 * count + Self.keptCount { compactArrivals() }
        if current != flow { addPlace(of: flow) }
    }

    /// Drops the jobs of a flow for which `isDropped` gives true, also the one under way between two slices.
    /// O(its jobs).
    mutating func drop(_ flow: Flow, where isDropped: (Item) -> Bool) {
        guard let index = flows.index(forKey: flow) else { return }
        var left = Array(flows.values[index].items[flows.values[index].doneCount...])
        let before = left.count
        left.removeAll { $0.item.map(isDropped) ?? true }
        count -= before - left.count
        flows.values[index].items = left
        flows.values[index].doneCount = 0
    }

    // MARK: Turns

    /// The job of which a slice is to be done. O(log flows), amortised.
    /// - Precondition: The slice before is finished.
    mutating func next() -> (flow: Flow, item: Item)? {
        precondition(current == nil, "a slice is finished before the next begins")
        guard count > 0 else { return nil }
        turn += 1
        let flow =
            turn.isMultiple(of: Self.oldestJobInterval)
            ? oldestFlow() ?? leastServedFlow() : leastServedFlow()
        guard let flow, let item = flows[flow]?.first?.item else { return nil }
        current = flow
        return (flow, item)
    }

    /// The slice is done.
    /// - Parameters:
    ///   - work: What it cost.
    ///   - isDone: Whether it was the job's last.
    mutating func finish(work: Int, isDone: Bool) {
        guard let flow = current.take(), let index = flows.index(forKey: flow) else { return }
        if isDone, flows.values[index].first != nil {
            flows.values[index].removeFirst()
            count -= 1
        }
        charge(work, to: flow)
        addPlace(of: flow)
    }

    /// Charges flows for a slice that was done for them and for another flow, which was charged already.
    /// Their groups are charged once each. Ignores flows that are not known.
    mutating func charge(_ work: Int, toSharers sharers: [Flow], of flow: Flow) {
        guard !sharers.isEmpty else { return }
        var charged: Set<Group> = []
        if let group = flows[flow]?.group { charged.insert(group) }
        for sharer in sharers {
            guard let group = flows[sharer]?.group else { continue }
            charge(work, to: sharer, andGroup: charged.insert(group).inserted)
        }
    }

    private mutating func charge(_ work: Int, to flow: Flow, andGroup chargesGroup: Bool = true) {
        guard let index = flows.index(forKey: flow) else { return }
        let work = Double(max(0, work)) * Double(sign: .plus, exponent: period, significand: 1)
        flows.values[index].account.served += work
        guard chargesGroup else { return }
        groups[flows.values[index].group, default: GroupState()].account.served += work
    }

    /// So many periods have passed since the beginning. O(1), and O(flows and groups) for a new one.
    mutating func advance(toPeriod now: Int) {
        guard now > epoch + period else { return }
        period = now - epoch
        if period > Self.rescaledPeriodCount { rescale() }
        let least = forgottenWork * Double(sign: .plus, exponent: period, significand: 1)
        let current = current
        for (key, flow) in flows
        where flow.first == nil && flow.account.served < least && key != current && !flow.hasPlace {
            flows[key] = nil
        }
        let known = Set(flows.values.lazy.map(\.group))
        for (key, group) in groups
        where group.account.served < least && !group.hasPlace && !known.contains(key) {
            groups[key] = nil
        }
    }

    /// Periods that ``rescale()`` has taken away.
    private var epoch = 0

    private mutating func rescale() {
        let factor = Double(sign: .plus, exponent: -period, significand: 1)
        for key in flows.keys { flows[key]?.account.served *= factor }
        for key in groups.keys {
            groups[key]?.account.served *= factor
            guard var places = groups[key]?.flows else { continue }
            for index in places.indices { places[index].lower(by: period) }
            groups[key]?.flows = places
        }
        for index in heap.indices { heap[index].lower(by: period) }
        epoch += period
        period = 0
    }

    // MARK: Places

    private func place(of flow: Flow) -> Place<Flow>? {
        guard let state = flows[flow], let first = state.first else { return nil }
        return Place(magnitude: state.account.magnitude, arrival: first.arrival, key: flow)
    }

    /// Adds a flow that has jobs to the heap of its group, and the group to that of groups.
    private mutating func addPlace(of flow: Flow) {
        guard let state = flows[flow], let place = place(of: flow) else { return }
        var group = groups[state.group] ?? GroupState()
        groups[state.group] = nil
        if !state.hasPlace {
            flows[flow]?.hasPlace = true
            group.flows.push(place) { $0 < $1 }
        }
        if !group.hasPlace {
            group.hasPlace = true
            heap.push(
                Place(
                    magnitude: group.account.magnitude, arrival: place.arrival, key: state.group)
            ) { $0 < $1 }
        }
        groups[state.group] = group
    }

    /// Removes the least served flow from its group's heap, and the group from `heap` if that was its last.
    private mutating func leastServedFlow() -> Flow? {
        while let top = heap.first {
            let key = top.key
            guard var group = groups[key] else {
                heap.pop { $0 < $1 }
                continue
            }
            if top.magnitude < group.account.magnitude {
                // It was served since.
                heap.pop { $0 < $1 }
                heap.push(
                    Place(magnitude: group.account.magnitude, arrival: top.arrival, key: key)
                ) { $0 < $1 }
                continue
            }
            groups[key] = nil
            let flow = takeFlow(&group)
            if group.flows.isEmpty {
                heap.pop { $0 < $1 }
                group.hasPlace = false
            }
            groups[key] = group
            if let flow { return flow }
        }
        return nil
    }

    private mutating func takeFlow(_ group: inout GroupState) -> Flow? {
        while let top = group.flows.pop({ $0 < $1 }) {
            guard let place = place(of: top.key) else {
                flows[top.key]?.hasPlace = false
                continue
            }
            // It was charged since, or its first job was dropped.
            guard place.magnitude <= top.magnitude, place.arrival == top.arrival else {
                group.flows.push(place) { $0 < $1 }
                continue
            }
            flows[top.key]?.hasPlace = false
            return top.key
        }
        return nil
    }

    /// The flow of the job that came first.
    private mutating func oldestFlow() -> Flow? {
        while firstArrival < arrivals.count {
            let (arrival, flow) = arrivals[firstArrival]
            if flows[flow]?.first?.arrival == arrival { return flow }
            firstArrival += 1
        }
        compactArrivals()
        return nil
    }

    private static var keptCount: Int { 64 }

    /// Removes from ``arrivals`` the jobs that are done.
    private mutating func compactArrivals() {
        var left = Array(arrivals[firstArrival...])
        left.removeAll { arrival, flow in (flows[flow]?.first?.arrival ?? .max) > arrival }
        arrivals = left
        firstArrival = 0
    }

    /// Traps where the tables contradict each other. O(jobs × flows); for tests.
    func checkInvariants() {
        precondition(
            count == flows.values.reduce(0) { $0 + $1.items.count - $1.doneCount }, "jobs are miscounted")
        for (key, flow) in flows {
            let isPlaced = groups[flow.group]?.flows.contains { $0.key == key } ?? false
            precondition(isPlaced == flow.hasPlace, "\(key) has lost its place")
            precondition(flow.hasPlace || flow.first == nil || current == key, "\(key) is never served")
        }
        for (key, group) in groups {
            precondition(group.hasPlace == heap.contains { $0.key == key }, "\(key) has lost its place")
            precondition(group.hasPlace || group.flows.isEmpty, "\(key) is never served")
        }
    }
}

extension Array {
    /// Adds an element to a heap. O(log n).
    fileprivate mutating func push(_ element: Element, _ isBefore: (Element, Element) -> Bool) {
        append(element)
        var index = count - 1
        while index > 0, isBefore(self[index], self[(index - 1) / 2]) {
            swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Removes the first element of a heap. O(log n).
    @discardableResult
    fileprivate mutating func pop(_ isBefore: (Element, Element) -> Bool) -> Element? {
        guard !isEmpty else { return nil }
        swapAt(0, count - 1)
        let first = removeLast()
        var index = 0
        while true {
            var least = index
            for child in 2 * index + 1...2 * index + 2
            where child < count && isBefore(self[child], self[least]) {
                least = child
            }
            guard least != index else { return first }
            swapAt(index, least)
            index = least
        }
    }
}
