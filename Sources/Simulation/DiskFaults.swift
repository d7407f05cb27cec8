import PandoJournal
import PandoRandom
import PandoSimulatedDisk

/// Decides how the operations of the simulated disk end.
struct DiskFaults {
    /// What the operation is for, as far as that decides how it may fail.
    struct Purpose {
        var isServing: Bool
        var isCheckpoint: Bool
    }

    /// Operations in 10 000 that fail.
    let failuresInTenThousand: Int
    /// Nothing happens to the disk.
    var isQuiet = true
    /// Operations until everything ends; nil for no end in sight.
    var operationsLeft: Int?
    /// An operation has failed since this was last set.
    var hasFailed = false
    private(set) var failureCount = 0

    init(failuresInTenThousand: Int) { self.failuresInTenThousand = failuresInTenThousand }

    mutating func outcome(
        of operation: DiskOperation, for purpose: Purpose, _ random: inout SeededGenerator
    ) -> SimulatedDisk.OperationOutcome {
        if let left = operationsLeft {
            operationsLeft = left - 1
            if left <= 0 {
                return operation == .write && random.chance(50)
                    ? .crashWriting(Int.random(in: 0...256, using: &random)) : .crash
            }
        }
        guard !isQuiet, failuresInTenThousand > 0,
            Int.random(in: 0..<10_000, using: &random) < failuresInTenThousand
        else { return .succeed }
        hasFailed = true
        failureCount += 1
        if operation == .read, random.chance(50) { return .readHalf }
        // Space for what is to be written was reserved before: only these may find none.
        let mayBeFull =
            operation == .reserve || operation == .open && purpose.isServing
            || purpose.isCheckpoint && operation == .write
        // While the server runs, these may find no descriptor.
        let mayLackDescriptors = (operation == .open || operation == .list) && purpose.isServing
        let number: Int32 =
            mayLackDescriptors && random.chance(50)
            ? SimulatedDisk.noDescriptor
            : mayBeFull && random.chance(70) ? Self.noSpace : Self.inputOutputError
        return .fail(number)
    }

    /// ENOSPC and EIO.
    private static let noSpace: Int32 = 28
    private static let inputOutputError: Int32 = 5
}
