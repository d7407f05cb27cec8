/// A set of Unicode scalars: a class or a literal of a pattern.
///
/// Always true: the ranges ascend, and neither overlap nor touch. So equal sets are equal values.
struct ScalarSet: Hashable {
    private(set) var ranges: [ClosedRange<UInt32>]

    private static let last: UInt32 = 0x10_FFFF

    init(_ ranges: [ClosedRange<UInt32>]) {
        self.ranges = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let before = self.ranges.last, range.lowerBound <= before.upperBound + 1 {
                let end = max(before.upperBound, range.upperBound)
                self.ranges[self.ranges.count - 1] = before.lowerBound...end
            } else {
                self.ranges.append(range)
            }
        }
    }

    /// One of the characters of `text`.
    init(of text: String) {
        self.init(text.unicodeScalars.map { $0.value...$0.value })
    }

    static let digits = ScalarSet([0x30...0x39])
    static let wordCharacters = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    /// Space, tab, CR, LF, VT and FF (rules §9).
    static let space = ScalarSet([0x09...0x0D, 0x20...0x20])
    /// The set of `.`: every character but the line feed.
    static let anyButLineFeed = ScalarSet([0x0A...0x0A]).inverted

    var inverted: ScalarSet {
        var gaps: [ClosedRange<UInt32>] = []
        var next: UInt32 = 0
        for range in ranges {
            if range.lowerBound > next { gaps.append(next...(range.lowerBound - 1)) }
            next = range.upperBound + 1
        }
        if next <= Self.last { gaps.append(next...Self.last) }
        return ScalarSet(gaps)
    }

    func contains(_ scalar: UInt32) -> Bool {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < scalar { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].lowerBound <= scalar
    }

    /// The set for the flag `i`: its members, and the characters that differ from them only in case. ASCII
    /// letters have only ASCII partners; for others the one-to-one mappings of Unicode count.
    var ignoringCase: ScalarSet {
        var all = ranges
        for range in ranges {
            let (upper, lower) = (range.clamped(to: 0x41...0x5A), range.clamped(to: 0x61...0x7A))
            if range.overlaps(0x41...0x5A) { all.append((upper.lowerBound + 32)...(upper.upperBound + 32)) }
            if range.overlaps(0x61...0x7A) { all.append((lower.lowerBound - 32)...(lower.upperBound - 32)) }
            guard range.upperBound >= 0x80 else { continue }
            for run in CaseRun.all {
                if let partners = run.partners(of: range) { all.append(partners) }
            }
        }
        return ScalarSet(all)
    }
}

/// A run of letters beyond ASCII whose partners in the other case have the same distance. Some hundred runs
/// contain all letters with case, so that a set is compared with the runs instead of each letter.
struct CaseRun {
    private var first: UInt32
    private var last: UInt32
    /// Every letter, or every second one; 2 only where the partner is the neighbour.
    private var stride: UInt32
    /// The distance from a letter to its partner.
    private let distance: Int32

    /// The partners of the run's letters in the range, and perhaps some of the range itself.
    func partners(of range: ClosedRange<UInt32>) -> ClosedRange<UInt32>? {
        guard range.lowerBound <= last, range.upperBound >= first else { return nil }
        var low = max(range.lowerBound, first)
        var high = min(range.upperBound, last)
        low += (low - first) % stride
        high -= (high - first) % stride
        // Between the partners of every second letter are letters of the range: those neighbours.
        return low <= high ? moved(low)...moved(high) : nil
    }

    private func moved(_ scalar: UInt32) -> UInt32 { UInt32(Int64(scalar) + Int64(distance)) }

    static let all: [CaseRun] = {
        var runs: [CaseRun] = []
        /// The last run of each distance.
        var latest: [Int32: Int] = [:]
        for (scalar, partner) in pairs {
            let distance = Int32(partner) - Int32(scalar)
            if let index = latest[distance] {
                if runs[index].last == scalar { continue }
                if runs[index].extend(to: scalar) { continue }
            }
            latest[distance] = runs.count
            runs.append(CaseRun(first: scalar, last: scalar, stride: 1, distance: distance))
        }
        return runs
    }()

    /// - Returns: False when the letter does not continue the run.
    private mutating func extend(to scalar: UInt32) -> Bool {
        let step = scalar - last
        guard first == last ? step == 1 || step == 2 && distance.magnitude == 1 : step == stride else {
            return false
        }
        stride = step
        last = scalar
        return true
    }

    /// Both directions of each pair, in order. The letters with case end with those of Adlam.
    private static var pairs: [(UInt32, UInt32)] {
        var pairs: [(UInt32, UInt32)] = []
        for value in 0x80...0x1E943 as ClosedRange<UInt32> {
            guard let scalar = Unicode.Scalar(value), scalar.properties.isCased else { continue }
            for mapping in [scalar.properties.lowercaseMapping, scalar.properties.uppercaseMapping] {
                let partners = mapping.unicodeScalars
                guard partners.count == 1, let partner = partners.first?.value, partner >= 0x80,
                    partner != value
                else { continue }
                pairs += [(value, partner), (partner, value)]
            }
        }
        return pairs.sorted { $0 < $1 }
    }
}
