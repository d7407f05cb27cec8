import PandoBytes
import PandoEngine
import PandoTree
import PandoWebSocket
import PandoWire

// How messages of the realtime protocol are printed, by the database thread and by workers.

/// Why a compare-and-set was refused (realtime §11.2).
let staleText: Text = "Transaction hash does not match"

extension [UInt8] {
    mutating func append(pushHead body: Push.Body) {
        switch body {
        case .overwrite(let path, let node): append(push: node, at: path)
        case .merge(let base, let entries):
            append(
                mergePush: entries.lazy.map { (path: base.appending($0.path.keys), node: $0.node) }, at: base)
        case .rangeMerge(let path, let ranges): append(rangeMergePush: ranges, at: path)
        case .initial, .listens: preconditionFailure("it is a large message")
        }
    }

    /// Appends a message as text frames, behind a count frame where it takes more than one (realtime §2.1).
    /// - Returns: false, and nothing is appended, where it takes more frames than clients accept.
    package mutating func append(framesOf message: RawSpan) -> Bool {
        switch Segmenter.split(message) {
        case .whole: append(frame: .text, payload: message)
        case .chunks(let ranges):
            append(countFrame: ranges.count)
            for range in ranges { append(frame: .text, payload: message.extracting(range)) }
        case .tooBig: return false
        }
        return true
    }

    /// Appends the frame that announces so many chunks.
    mutating func append(countFrame count: Int) {
        var digits: [UInt8] = []
        digits.append(decimal: UInt64(count))
        append(frame: .text, payload: digits.rawSpan)
    }

    /// Appends the refusal of a compare-and-set, with the value it was compared with (realtime §11.2).
    mutating func append(staleReply number: Int64, _ current: CommandResult.CurrentValue) {
        append(
            reply: number, .dataStale,
            .current(reason: staleText, node: current.node, hash: Text(current.hash)))
    }
}
