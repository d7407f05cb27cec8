import PandoBytes
import PandoCompression
import PandoHTTP

/// Makes a body of any size, piece by piece, while it is sent.
package protocol ResponseBodySource: Sendable {
    /// The next bytes, some tens of KiB and never none; nil at the end.
    mutating func next() -> [UInt8]?
}

/// What is still to be sent of the body of a response: it is printed, compressed and framed piece by piece.
///
/// One that is compressed holds a ``Deflater``, so it must not be copied.
enum ResponseBody {
    case nothing
    /// Its length is not known yet, and so neither is its framing (RFC 9112 §6): what was printed stays in
    /// the printer, and the head lacks its last fields.
    case framingUnknown(ValuePrinter, ResponseContext)
    case bytes([UInt8])
    case printer(ValuePrinter)
    case chunks(ValuePrinter)
    case gzip(ValuePrinter, Deflater, isChunked: Bool)
    case source(any ResponseBodySource, isChunked: Bool)

    var isNothing: Bool { if case .nothing = self { true } else { false } }

    var isFramingUnknown: Bool { if case .framingUnknown = self { true } else { false } }

    var isCompressing: Bool { if case .gzip = self { true } else { false } }

    /// Bytes of memory that it holds, beside the tree's. O(1).
    var heldByteCount: Int {
        switch self {
        case .framingUnknown(let printer, _), .printer(let printer), .chunks(let printer),
            .gzip(let printer, _, _):
            printer.heldByteCount
        case .bytes(let bytes): bytes.count
        case .nothing, .source: 0
        }
    }

    /// Removes the next piece, and appends it to an output in its framing.
    /// - Returns: What that has cost (``RESTResponse/printedByteCount``).
    /// - Precondition: The framing is known.
    mutating func removePiece(into output: inout [UInt8]) -> Int {
        // In each case `self` gives up its reference first: otherwise the printer's buffer would be copied.
        var cost = 0
        switch self {
        case .nothing: break
        case .framingUnknown: preconditionFailure("the head is not complete")
        case .bytes(let bytes):
            output += bytes
            self = .nothing
        case .printer(var printer):
            self = .nothing
            output += Self.print(&printer, &cost)
            if !printer.isFinished { self = .printer(printer) }
        case .chunks(var printer):
            self = .nothing
            output.append(chunk: Self.print(&printer, &cost).rawSpan)
            if printer.isFinished { output.appendLastChunk() } else { self = .chunks(printer) }
        case .gzip(var printer, let deflater, let isChunked):
            self = .nothing
            var packed: [UInt8] = []
            let piece = Self.print(&printer, &cost)
            cost += piece.count
            deflater.deflate(piece.rawSpan, flush: printer.isFinished ? .finish : .none, into: &packed)
            if isChunked { output.append(chunk: packed.rawSpan) } else { output += packed }
            if printer.isFinished {
                if isChunked { output.appendLastChunk() }
            } else {
                self = .gzip(printer, deflater, isChunked: isChunked)
            }
        case .source(var source, let isChunked):
            self = .nothing
            if let piece = source.next() {
                cost += piece.count
                if isChunked { output.append(chunk: piece.rawSpan) } else { output += piece }
                self = .source(source, isChunked: isChunked)
            } else if isChunked {
                output.appendLastChunk()
            }
        }
        return cost
    }

    /// Prints the next piece, and adds what that has cost.
    private static func print(_ printer: inout ValuePrinter, _ cost: inout Int) -> [UInt8] {
        let before = printer.workCount
        let piece = printer.next() ?? []
        cost += printer.workCount - before
        return piece
    }
}
