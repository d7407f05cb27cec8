// Children by their place in key order: every ref has the count of what is below it.

extension Children {
    /// The key of the child before which there are `offset` others; nil where there is none.
    /// - Complexity: O(log n).
    package func key(at offset: Int) -> Key? {
        guard offset >= 0 else { return nil }
        var page = root
        var rest = offset
        while true {
            switch page {
            case .entries(let entries): return rest < entries.count ? entries[rest].key : nil
            case .refs(let refs):
                var found: Page?
                for ref in refs {
                    guard rest >= ref.count else {
                        found = ref.page
                        break
                    }
                    rest -= ref.count
                }
                guard let found else { return nil }
                page = found
            }
        }
    }

    /// How many children have a key before `key`, which need not be there.
    /// - Complexity: O(log n).
    package func rank(of key: Key) -> Int {
        var page = root
        var rank = 0
        while true {
            switch page {
            case .entries(let entries):
                return rank + (entries.firstIndex { !($0.key < key) } ?? entries.count)
            case .refs(let refs):
                // Keys before the second ref belong to the first.
                let next = refs.dropFirst().firstIndex { key < $0.first } ?? refs.endIndex
                for ref in refs[..<(next - 1)] { rank += ref.count }
                page = refs[next - 1].page
            }
        }
    }
}
