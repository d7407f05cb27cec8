import PandoBytes
import PandoTree

extension ClientMessage {
    /// Parses one complete message, in one pass if its members have one of the orders that the SDKs write.
    ///
    /// Members may have any order; unknown ones are ignored; of two with the same name the last one counts.
    /// The bytes need not be UTF-8: every string is checked, and anything else must be ASCII.
    /// - Throws: ``MalformedMessage``: the connection must be closed. Data that violates the data model gives
    ///   an ``Action/invalid(_:_:)`` instead.
    /// - Complexity: O(bytes).
    package init(parsing message: RawSpan) throws(MalformedMessage) {
        self = try withCursor(over: message) { (cursor) throws(MalformedMessage) in
            var parser = MessageParser(cursor)
            do throws(MalformedJSON) {
                // Returned directly: through a variable it would be copied.
                if let message = try parser.readMessage() { return message }
            } catch {
                throw .json(error)
            }
            throw parser.fault
        }
    }

    /// As ``init(parsing:)``, with a bound on the memory of its data.
    /// - Parameter nodeLimit: Most nodes of a write (``PandoTree/Limits/nodeCount(writeByteLimit:)``). A
    ///   write with more is an ``Action/invalid(_:_:)``, and takes no more memory than `nodeLimit` nodes.
    /// - Throws: As ``init(parsing:)``.
    package init(parsing message: RawSpan, nodeLimit: Int) throws(MalformedMessage) {
        self = try withCursor(over: message) { (cursor) throws(MalformedMessage) in
            var parser = MessageParser(cursor, nodeLimit: nodeLimit)
            do throws(MalformedJSON) {
                if let message = try parser.readMessage() { return message }
            } catch {
                if case .tooManyNodes = error { return .request(try Self.oversizedRequest(cursor)) }
                throw .json(error)
            }
            throw parser.fault
        }
    }

    /// The request of a message whose data has too many nodes. Only what is around the data is read, for the
    /// number of the reply.
    private static func oversizedRequest(_ cursor: ByteCursor) throws(MalformedMessage) -> Request {
        var parser = MessageParser(cursor, skipsData: true)
        let message: ClientMessage?
        do throws(MalformedJSON) { message = try parser.readMessage() } catch { throw .json(error) }
        guard case .request(var request)? = message else { throw parser.fault }
        request.action = .invalid("", .tooManyNodes)
        return request
    }
}
