import PandoBytes

// The simple hash, V1 (realtime §9.1), which listens and transactions compare.
//
//     hash(node)   = ""                                 for `.empty`, else Base64(SHA-1(rep(node)))
//     rep(leaf)    = prio + "number:" hex64 | "boolean:true|false" | "string:" text
//     rep(object)  = prio + ":" key ":" hash(child) …   children by priority, then by key
//     prio         = "" | "priority:" number-or-string as above ":"

extension Node {
    /// The simple hash: 28 characters, or the empty string for `.empty`. O(size).
    package var hash: String {
        var text: [UInt8] = []
        appendHash(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the hash. The text that is hashed is built at the end of `output`, where the hash then
    /// replaces it: one buffer for the whole tree. That of an object is passed to SHA-1 in pieces, so that
    /// the text of millions of children is never complete in memory.
    func appendHash(to output: inout [UInt8]) {
        if isEmpty { return }
        var sha1 = SHA1()
        let start = output.count
        appendHashedPriority(to: &output)
        if case .object(let children) = withoutPriority {
            children.forEachInHashOrder { key, child in
                output.append(UInt8(ascii: ":"))
                output.append(utf8: key)
                output.append(UInt8(ascii: ":"))
                child.appendHash(to: &output)
                if output.count - start > 4096 { output.flush(from: start, to: &sha1) }
            }
        } else {
            output.append(rep: withoutPriority)
        }
        output.flush(from: start, to: &sha1)
        sha1.finish(appendingBase64To: &output)
    }

    /// Appends `prio`: nothing without a priority.
    func appendHashedPriority(to output: inout [UInt8]) {
        guard let priority else { return }
        output.append("priority:")
        output.append(rep: priority.node)
        output.append(UInt8(ascii: ":"))
    }
}

extension Children {
    /// Visits children by priority, then by key (§9.1): in key order if there are no priorities.
    fileprivate func forEachInHashOrder(_ body: (Key, Node) -> Void) {
        guard hasPriorities else {
            forEach { key, node in
                body(key, node)
                return true
            }
            return
        }
        let sorted = entries.sorted { left, right in
            let order = Priority.compare(left.node.priority, right.node.priority)
            return order != 0 ? order < 0 : left.key < right.key
        }
        for entry in sorted { body(entry.key, entry.node) }
    }
}

extension [UInt8] {
    fileprivate mutating func flush(from start: Int, to sha1: inout SHA1) {
        // `UInt8` has no padding: every byte of the span is initialised.
        sha1.update(unsafe span.extracting(start...).bytes)
        removeSubrange(start...)
    }

    /// Appends `type:value` of a leaf without priority, with strings not quoted.
    fileprivate mutating func append(rep leaf: Node) {
        switch leaf {
        case .boolean(let value): append(value ? "boolean:true" : "boolean:false")
        case .string(let text):
            append("string:")
            append(utf8: text)
        case .integer, .double: append(hashedNumber: leaf.doubleValue ?? 0)
        case .empty, .object, .prioritized: preconditionFailure("only leaves have a value")
        }
    }

    /// Appends `number:` and the sixteen hex digits of the double, big-endian (§9.1).
    mutating func append(hashedNumber value: Double) {
        append("number:")
        for shift in [UInt64(32), 0] {
            // Eight digits at once: each nibble in one byte, the highest one in the lowest byte.
            var digits: UInt64 = 0
            for nibble in 0..<UInt64(8) {
                digits |= (value.bitPattern >> (shift + 28 - 4 * nibble) & 15) << (8 * nibble)
            }
            // 10…15 are `a`…`f`, which are 39 further on in ASCII.
            let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
            append(littleEndian: digits &+ 0x3030_3030_3030_3030 &+ letters &* 39)
        }
    }
}
