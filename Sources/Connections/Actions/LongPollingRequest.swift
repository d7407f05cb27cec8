import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP

/// One request of long polling (realtime §1.5), read from its query.
package enum LongPollingRequest: Equatable {
    case start(Start)
    case poll(Poll)
    /// The page that sends ``disconnect(_:)`` when the client's page is left.
    case disconnectPage(Address)
    case disconnect(Address)
    /// No session has such an id, or such a password.
    case ofNoSession(Purpose)

    /// What a request asks of the session that it names.
    package enum Purpose: Equatable, Sendable { case poll, disconnectPage, disconnect }

    package struct Start: Equatable {
        /// The digits behind the names of the page's functions.
        var callback: [UInt8]
        var namespace: String?
        var previousSession: Text?
    }

    /// What names a session, and the password that only its client has.
    package struct Address: Equatable {
        package var id: SessionID
        package var password: [UInt8]

        package static func == (left: Address, right: Address) -> Bool {
            left.id.rawValue == right.id.rawValue && left.password == right.password
        }
    }

    package struct Poll: Equatable {
        package var address: Address
        /// One more with each poll of a session; a poll that is asked again has the same.
        var serial: UInt64
    }

    /// A piece of a client's message, as Base64.
    package struct Segment: Equatable {
        /// Counts all segments of the session, from 0.
        var number: Int
        /// Segments of the message.
        var total: Int
        var text: [UInt8]
    }

    /// A parameter is missing, or is not what it must be.
    package struct Malformed: Error, Equatable {
        var parameter: String
    }

    /// Digits of a callback's number; clients count theirs.
    package static let callbackDigitLimit = 20
    /// As ``LongPollingPassword`` makes them.
    package static let passwordCount = 10
    /// Segments of one request: clients fit 62 empty ones, and the target of a request is bounded.
    package static let segmentLimit = 128
    /// Pairs of one query: three for each segment, and space for all others that clients send. No head has
    /// more.
    static let pairLimit = HeadLimits.queryPairLimit

    /// Of a poll, only what names its session; ``segments(_:)`` reads the rest.
    /// - Throws: ``Malformed``, with the parameter that is missing or not valid.
    package init(_ query: QueryString) throws(Malformed) {
        guard query["start"] == nil else {
            self = try .start(Start(query))
            return
        }
        let purpose = Purpose(query)
        guard let address = try Address(query) else {
            self = .ofNoSession(purpose)
            return
        }
        switch purpose {
        case .disconnect: self = .disconnect(address)
        case .disconnectPage: self = .disconnectPage(address)
        case .poll:
            guard let serial = query["ser"].flatMap(Self.number) else { throw Malformed(parameter: "ser") }
            self = .poll(Poll(address: address, serial: serial))
        }
    }

    /// The segments that a poll brings.
    /// - Throws: ``Malformed``, with the parameter that is missing or not valid, or of which there are too
    ///   many.
    /// - Complexity: O(bytes of the query).
    package static func segments(_ query: QueryString) throws(Malformed) -> [Segment] {
        guard query.pairs.count <= pairLimit else { throw Malformed(parameter: "seg\(segmentLimit)") }
        // `seg0`, `ts0`, `d0`, `seg1`, …: the first of each name counts.
        var found: [(number: Text?, total: Text?, text: Text?)] = []
        func place(_ name: Text, behind prefix: StaticString) -> Int? {
            guard let index = index(in: name, behind: prefix) else { return nil }
            while found.count <= index { found.append((nil, nil, nil)) }
            return index
        }
        for pair in query.pairs {
            let value = pair.value ?? ""
            if let index = place(pair.name, behind: "seg") {
                if found[index].number == nil { found[index].number = value }
            } else if let index = place(pair.name, behind: "ts") {
                if found[index].total == nil { found[index].total = value }
            } else if let index = place(pair.name, behind: "d"), found[index].text == nil {
                found[index].text = value
            }
        }
        var segments: [Segment] = []
        for (index, (text, total, data)) in found.enumerated() {
            // Those behind a gap are not looked at.
            guard let text else { break }
            guard index < segmentLimit else { throw Malformed(parameter: "seg\(index)") }
            guard let number = number(text).flatMap(Int.init(exactly:)), number < numberLimit else {
                throw Malformed(parameter: "seg\(index)")
            }
            guard let total = total.flatMap(Self.number).flatMap(Int.init(exactly:)), total > 0 else {
                throw Malformed(parameter: "ts\(index)")
            }
            guard let data else { throw Malformed(parameter: "d\(index)") }
            segments.append(Segment(number: number, total: total, text: data.bytes))
        }
        return segments
    }

    /// The number behind a parameter's name, as clients write it; nil where there is none, or a larger one
    /// than counts.
    private static func index(in name: Text, behind prefix: StaticString) -> Int? {
        name.withBytes { index(in: $0, behind: prefix) }
    }

    private static func index(in name: Span<UInt8>, behind prefix: StaticString) -> Int? {
        var index = 0
        var count = 0
        for place in name.indices {
            let byte = name[place]
            defer { count += 1 }
            guard count >= prefix.utf8CodeUnitCount else {
                // In bounds: `count` is less than the prefix's length.
                guard unsafe byte == prefix.utf8Start[count] else { return nil }
                continue
            }
            // No second name for the same: no zero before other digits.
            guard byte >= 0x30, byte <= 0x39, index > 0 || count == prefix.utf8CodeUnitCount else {
                return nil
            }
            index = index * 10 + Int(byte - 0x30)
            guard index <= segmentLimit else { return nil }
        }
        return count > prefix.utf8CodeUnitCount ? index : nil
    }

    /// More than a client ever counts to, and far from overflow.
    private static let numberLimit = 1 << 48

    /// Decimal digits only: `UInt64(_:)` takes signs, too.
    package static func number(_ text: Text) -> UInt64? { text.number() }
}

extension LongPollingRequest.Start {
    fileprivate init(_ query: QueryString) throws(LongPollingRequest.Malformed) {
        let callback = query["cb"] ?? ""
        guard callback.utf8Count <= LongPollingRequest.callbackDigitLimit,
            callback.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { throw LongPollingRequest.Malformed(parameter: "cb") }
        self.callback = callback.bytes
        namespace = query["ns"].flatMap { $0.isEmpty ? nil : NamespaceName.received($0) }
        previousSession = query["ls"]
    }
}

extension LongPollingRequest.Start {
    /// What the databases get about the session that begins.
    /// - Parameters:
    ///   - host: Of the request.
    ///   - publicID: By which its client will know the session.
    package func openRequest(host: String, publicID: PublicSessionID) -> OpenRequest {
        OpenRequest(
            namespace: namespace ?? NamespaceName.fromHost(host), host: Text(host),
            previousSession: previousSession, publicID: publicID)
    }
}

extension LongPollingRequest.Purpose {
    fileprivate init(_ query: QueryString) {
        self = query["disconn"] != nil ? .disconnect : query["dframe"] != nil ? .disconnectPage : .poll
    }
}

extension LongPollingRequest.Address {
    /// Nil where no session can have it.
    fileprivate init?(_ query: QueryString) throws(LongPollingRequest.Malformed) {
        guard let id = query["id"] else { throw LongPollingRequest.Malformed(parameter: "id") }
        guard let password = query["pw"] else { throw LongPollingRequest.Malformed(parameter: "pw") }
        // What is repeated in a page must be letters and digits.
        guard let id = LongPollingRequest.number(id), password.utf8Count == LongPollingRequest.passwordCount,
            password.allSatisfy(LongPollingPassword.isCharacter)
        else { return nil }
        self.id = SessionID(id)
        self.password = password.bytes
    }
}

/// Passwords of long polling: they keep others from a session whose id they guess.
package enum LongPollingPassword {
    private static let characters = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// - Parameter random: The operating system's, so that it cannot be guessed: 59 bits.
    package static func make(using random: inout some RandomNumberGenerator) -> [UInt8] {
        return (0..<LongPollingRequest.passwordCount).map { _ in
            characters[Int.random(in: 0..<characters.count, using: &random)]
        }
    }

    package static func isCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// Takes the same time wherever they differ.
    package static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for index in left.indices { difference |= left[index] ^ right[index] }
        return difference == 0
    }
}
