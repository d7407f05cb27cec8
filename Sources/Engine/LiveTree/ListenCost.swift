import PandoTree

/// What a listen costs, about.
enum ListenCost {
    /// About how much there is to do to end a listen, in nodes of the trie. O(1).
    static func work(at path: Path) -> Int { path.count + 1 }
}
