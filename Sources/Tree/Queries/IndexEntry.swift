/// One child in an ``OrderedIndex``.
struct IndexEntry: Sendable {
    let word: OrderWord
    let key: Key
}

/// A page of an ``OrderedIndex``.
enum IndexPage {
    /// Most entries or refs.
    static let capacity = 64
}
