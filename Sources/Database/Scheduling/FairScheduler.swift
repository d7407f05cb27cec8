/// Items that wait for one worker, served in turn by the work they cause: groups among themselves
/// (databases), and the flows of a group among themselves (sessions). Within a flow the order is that of
/// arrival. What one flow piles up delays itself.
///
///     group 1   ─▶ flow a  [ item item item … ]
///               └▶ flow b  [ item ]                       a flow may be suspended: the items behind one whose answer
///     group 2   ─▶ flow c  [ item item ]                  takes time elsewhere wait, and those of other flows do not
///
/// The caller takes an item with ``next()``, processes it, and reports with ``finish(work:)`` what it cost. A
/// value without clock or thread. A flow belongs to the group of the first item that waits in it.
struct FairScheduler<Group: Hashable, Flow: Hashable, Item> {
    private struct Waiting {
        var group: Group
        var items: [Item] = []
        /// Items at the front that were taken.
        var takenCount = 0
        var isSuspended = false

        var isEmpty: Bool { takenCount == items.count }

        var count: Int { items.count - takenCount }

        var first: Item? { isEmpty ? nil : items[takenCount] }

        mutating func popFirst(leaving placeholder: Item) -> Item {
            let item = exchange(&items[takenCount], with: placeholder)
            takenCount += 1
            if takenCount == items.count {
                items.removeAll(keepingCapacity: items.capacity <= Self.keptCapacity)
                takenCount = 0
            } else if takenCount >= Self.keptCapacity, takenCount * 2 >= items.count {
                items.removeFirst(takenCount)
                takenCount = 0
            }
            return item
        }

        /// Taken items that are kept before the rest moves to the front.
        private static var keptCapacity: Int { 64 }
    }

    /// What waits in a group.
    private struct GroupFlows {
        var ring: DeficitRing<Flow>
        /// Items that wait in the flows that are not suspended.
        var itemCount = 0
    }

    /// A flow has few items (``DeficitRing``) while at most so many wait; and so has a group, with all its
    /// flows. About as many as a client sends that waits for its replies.
    private static var fewItemsCount: Int { 8 }

    private let quantum: Int
    private let debtLimit: Int
    /// Replaces an item that was taken out; never served.
    private let placeholder: Item
    private var flows: [Flow: Waiting] = [:]
    private var groups: DeficitRing<Group>
    private var flowsOfGroup: [Group: GroupFlows] = [:]
    /// The flow whose item is being processed.
    private var served: Flow?
    /// Items that were taken with that one (``nextOfSameFlow(where:)``).
    private var servedAlsoCount = 0
    /// Items that wait, those of suspended flows included.
    private(set) var count = 0
    private(set) var suspendedCount = 0

    /// - Parameters:
    ///   - quantum: Work of one flow, and of one group, in one round.
    ///   - debtLimit: The most that one flow or group can owe the others.
    init(quantum: Int, debtLimit: Int, placeholder: Item) {
        self.quantum = quantum
        self.debtLimit = debtLimit
        self.placeholder = placeholder
        groups = DeficitRing(quantum: quantum, debtLimit: debtLimit)
    }

    /// Whether nothing waits and no flow is suspended: a new item may be processed without this queue, and
    /// overtakes nothing.
    var isIdle: Bool { count == 0 && suspendedCount == 0 }

    /// Whether ``next()`` has an item.
    var hasNext: Bool { !groups.isEmpty }

    /// Flows with items that wait, or that are suspended; in no order. O(flows).
    var waitingFlows: [Flow] { Array(flows.keys) }

    /// Adds an item behind those of its flow. O(1).
    mutating func append(_ item: Item, to flow: Flow, of group: Group) {
        append(CollectionOfOne(item), to: flow, of: group)
    }

    /// Adds items, at least one, behind those of their flow. O(items).
    mutating func append(_ items: some Collection<Item>, to flow: Flow, of group: Group) {
        count += items.count
        guard let index = flows.index(forKey: flow) else {
            flows[flow] = Waiting(group: group, items: Array(items))
            activate(flow, of: group)
            return countItems(items.count, of: group)
        }
        if !flows.values[index].isSuspended { countItems(items.count, of: flows.values[index].group) }
        let wasEmpty = flows.values[index].isEmpty
        flows.values[index].items.append(contentsOf: items)
        // A flow whose item is being done is active already.
        if wasEmpty, !flows.values[index].isSuspended, served != flow {
            activate(flow, of: flows.values[index].group)
        }
    }

    /// The item whose turn it is; nil where nothing waits, or only items of suspended flows. O(1), amortised
    /// over a round.
    /// - Precondition: The item taken before is finished.
    mutating func next() -> (flow: Flow, item: Item)? {
        precondition(served == nil, "an item is finished before the next is taken")
        guard let group = groups.next(), let flow = flowsOfGroup[group]?.ring.next(),
            let index = flows.index(forKey: flow)
        else { return nil }
        count -= 1
        countItems(-1, of: group)
        served = flow
        return (flow, flows.values[index].popFirst(leaving: placeholder))
    }

    /// Another item of the flow whose item is being processed; nil where none waits there, the next one is
    /// not wanted, or the flow is suspended. ``finish(work:)`` ends the turn of all of them. O(1).
    mutating func nextOfSameFlow(where isWanted: (Item) -> Bool) -> Item? {
        guard let flow = served, let index = flows.index(forKey: flow), !flows.values[index].isSuspended,
            let item = flows.values[index].first, isWanted(item)
        else { return nil }
        count -= 1
        countItems(-1, of: flows.values[index].group)
        servedAlsoCount += 1
        return flows.values[index].popFirst(leaving: placeholder)
    }

    /// The item that was taken last is processed.
    /// - Parameter work: What it cost.
    mutating func finish(work: Int) {
        guard let flow = served.take(), let index = flows.index(forKey: flow) else { return }
        let group = flows.values[index].group
        // As many as waited behind the first one that was taken.
        let alsoCount = exchange(&servedAlsoCount, with: 0)
        let itemCount = (flowsOfGroup[group]?.itemCount ?? 0) + alsoCount
        groups.charge(work, to: group, hasFewItems: itemCount <= Self.fewItemsCount)
        flowsOfGroup[group]?.ring.charge(
            work, to: flow, hasFewItems: flows.values[index].count + alsoCount <= Self.fewItemsCount)
        if flows.values[index].isEmpty || flows.values[index].isSuspended { deactivate(flow, of: group) }
        if flows.values[index].isEmpty, !flows.values[index].isSuspended { flows.remove(at: index) }
        forgiveWhenIdle()
    }

    /// Charges a flow with work that was done without this queue. It counts while the flow has items or is
    /// suspended; otherwise nothing is remembered of it.
    mutating func charge(_ work: Int, to flow: Flow) {
        guard let index = flows.index(forKey: flow) else { return }
        let group = flows.values[index].group
        flowsOfGroup[group]?.ring.charge(work, to: flow)
        groups.charge(work, to: group)
    }

    /// Whether the flow waits for ``resume(_:)``.
    func isSuspended(_ flow: Flow) -> Bool { flows[flow]?.isSuspended ?? false }

    /// Serves nothing more of the flow until ``resume(_:)``. Also for a flow whose item is being processed,
    /// or that has none.
    mutating func suspend(_ flow: Flow, of group: Group) {
        guard let index = flows.index(forKey: flow) else {
            suspendedCount += 1
            return flows[flow] = Waiting(group: group, isSuspended: true)
        }
        guard !flows.values[index].isSuspended else { return }
        suspendedCount += 1
        flows.values[index].isSuspended = true
        countItems(-flows.values[index].count, of: flows.values[index].group)
        if served != flow { deactivate(flow, of: flows.values[index].group) }
    }

    /// Serves a suspended flow again. Does nothing for one that is not suspended.
    mutating func resume(_ flow: Flow) {
        guard let index = flows.index(forKey: flow), flows.values[index].isSuspended else { return }
        suspendedCount -= 1
        flows.values[index].isSuspended = false
        let (group, itemCount) = (flows.values[index].group, flows.values[index].count)
        if served != flow {
            if itemCount == 0 { flows.remove(at: index) } else { activate(flow, of: group) }
        }
        countItems(itemCount, of: group)
        if served == flow { return }
        forgiveWhenIdle()
    }

    /// Drops the waiting items of a flow for which `isDropped` gives true; the others keep their order. O(its
    /// items).
    /// - Returns: How many were dropped.
    @discardableResult
    mutating func drop(_ flow: Flow, where isDropped: (Item) -> Bool) -> Int {
        guard let index = flows.index(forKey: flow), !flows.values[index].isEmpty else { return 0 }
        var left = Array(flows.values[index].items[flows.values[index].takenCount...])
        let before = left.count
        left.removeAll(where: isDropped)
        count -= before - left.count
        if !flows.values[index].isSuspended {
            countItems(left.count - before, of: flows.values[index].group)
        }
        let isEmptyNow = left.isEmpty
        flows.values[index].items = left
        flows.values[index].takenCount = 0
        if isEmptyNow, !flows.values[index].isSuspended, served != flow {
            deactivate(flow, of: flows.values[index].group)
            flows.remove(at: index)
            forgiveWhenIdle()
        }
        return before - left.count
    }

    // MARK: Turns

    private mutating func activate(_ flow: Flow, of group: Group) {
        let noFlows = GroupFlows(ring: DeficitRing(quantum: quantum, debtLimit: debtLimit))
        flowsOfGroup[group, default: noFlows].ring.activate(flow)
        groups.activate(group)
    }

    /// The flow has nothing to serve.
    private mutating func deactivate(_ flow: Flow, of group: Group) {
        flowsOfGroup[group]?.ring.deactivate(flow)
        if flowsOfGroup[group]?.ring.isEmpty ?? true { groups.deactivate(group) }
    }

    /// The flows of a group that are not suspended have so many more items. The group is known since one of
    /// them was activated.
    private mutating func countItems(_ difference: Int, of group: Group) {
        flowsOfGroup[group]?.itemCount += difference
    }

    /// Forgets all debts when nothing waits: they are owed to flows that wait, and the memory must not grow.
    private mutating func forgiveWhenIdle() {
        guard isIdle, served == nil else { return }
        flows.removeAll(keepingCapacity: flows.capacity <= 4096)
        flowsOfGroup.removeAll()
        groups = DeficitRing(quantum: quantum, debtLimit: debtLimit)
    }

    /// Traps where the tables contradict each other. O(items); for tests.
    func checkInvariants() {
        groups.checkInvariants()
        var itemCounts: [Group: Int] = [:]
        for waiting in flows.values where !waiting.isSuspended {
            itemCounts[waiting.group, default: 0] += waiting.count
        }
        for (group, own) in flowsOfGroup {
            own.ring.checkInvariants()
            precondition(own.itemCount == itemCounts[group] ?? 0, "items of a group are miscounted")
        }
        precondition(count == flows.values.reduce(0) { $0 + $1.count }, "items are miscounted")
        precondition(
            suspendedCount == flows.values.count { $0.isSuspended }, "suspended flows are miscounted")
        let served = served
        precondition(flows.allSatisfy { !$0.value.isEmpty || $0.value.isSuspended || $0.key == served })
        let active = flows.count { ($0.key == served) || !$0.value.isEmpty && !$0.value.isSuspended }
        let counted = flowsOfGroup.values.reduce(0) { $0 + $1.ring.activeCount }
        precondition(active == counted, "active flows are miscounted")
    }
}
