// About how many bytes a node prints in, without printing it or looking at all of it.

extension Node {
    /// True when the node prints in more than about `byteLimit` bytes. O(limit), however large the node is.
    package func isHeavier(than byteLimit: Int) -> Bool {
        var left = byteLimit
        return weigh(&left)
    }

    /// About how many bytes the node prints in, looked at only until `limit` is passed.
    package func weight(upTo limit: Int) -> Int {
        var left = limit
        _ = weigh(&left)
        return limit - left
    }

    /// Takes from `left` what the node prints in; true when nothing is left.
    package func weigh(_ left: inout Int) -> Bool {
        switch withoutPriority {
        case .object(let children):
            return !children.forEach { key, child in
                left -= key.utf8Count + 4
                return left >= 0 && !child.weigh(&left)
            }
        case .string(let text): left -= text.utf8Count + 2
        default: left -= 8
        }
        return left < 0
    }
}
