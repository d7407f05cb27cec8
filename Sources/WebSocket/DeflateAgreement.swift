/// How the messages of each side are compressed: the result of a handshake with permessage-deflate
/// (RFC 7692 §7.1).
package struct DeflateAgreement: Hashable, Sendable {
    /// The messages of one side.
    package struct Direction: Hashable, Sendable {
        /// Whether a message may refer to the messages before it. Otherwise each stands for itself.
        package var takesOver: Bool
        /// References reach back at most 2^n bytes, 8…15.
        package var windowBits: Int

        package init(takesOver: Bool, windowBits: Int) {
            self.takesOver = takesOver
            self.windowBits = windowBits
        }
    }

    /// The server's messages.
    package let server: Direction
    /// The client's messages.
    package let client: Direction
    /// The parameters of the server's response.
    let response: DeflateParameters
}

/// What a server wants of permessage-deflate.
package struct DeflateOptions: Hashable, Sendable {
    /// The most that it grants its own messages. Without takeover, messages are compressed once for all
    /// receivers, and no connection has a ``MessageDeflater`` of its own.
    package var server = DeflateAgreement.Direction(takesOver: false, windowBits: 15)
    /// The most that it grants the client's messages. Without takeover no connection has a
    /// ``MessageInflater`` of its own.
    package var client = DeflateAgreement.Direction(takesOver: false, windowBits: 15)

    package init() {}

    /// Chooses the first offer that can be met (RFC 7692 §5.1, §7.1).
    /// - Parameter offers: In the client's order of preference, other extensions among them.
    /// - Returns: nil where there is none: messages are not compressed.
    func negotiate(_ offers: [ExtensionElement]) -> DeflateAgreement? {
        for element in offers {
            if let offer = DeflateParameters(element, isOffer: true) { return accept(offer) }
        }
        return nil
    }

    /// Every valid offer can be met: what it demands, the server may demand of itself.
    private func accept(_ offer: DeflateParameters) -> DeflateAgreement {
        var response = DeflateParameters()
        response.serverNoContextTakeover = offer.serverNoContextTakeover || !server.takesOver
        response.clientNoContextTakeover = offer.clientNoContextTakeover || !client.takesOver
        let serverBits = min(server.windowBits, offer.serverMaxWindowBits ?? 15)
        // Said even where it was not demanded: the client can save memory.
        if offer.serverMaxWindowBits != nil || serverBits < 15 { response.serverMaxWindowBits = serverBits }
        let clientBits: Int
        switch offer.clientMaxWindowBits {
        // It must not be sent a size, and may use the largest.
        case .absent: clientBits = 15
        case .anySize: clientBits = client.windowBits
        case .bits(let bits): clientBits = min(client.windowBits, bits)
        }
        if offer.clientMaxWindowBits != .absent { response.clientMaxWindowBits = .bits(clientBits) }
        return DeflateAgreement(
            server: .init(takesOver: !response.serverNoContextTakeover, windowBits: serverBits),
            client: .init(takesOver: !response.clientNoContextTakeover, windowBits: clientBits),
            response: response)
    }
}

extension DeflateParameters {
    /// The client's check of the response to this offer.
    /// - Returns: nil where the server has not kept to the offer: the handshake must fail (RFC 7692 §7.1).
    func check(_ response: DeflateParameters) -> DeflateAgreement? {
        guard response.serverNoContextTakeover || !serverNoContextTakeover else { return nil }
        if let limit = serverMaxWindowBits {
            guard let bits = response.serverMaxWindowBits, bits <= limit else { return nil }
        }
        let clientBits: Int
        switch (clientMaxWindowBits, response.clientMaxWindowBits) {
        case (_, .anySize), (.absent, .bits): return nil
        case (.absent, .absent), (.anySize, .absent): clientBits = 15
        case (.anySize, .bits(let bits)): clientBits = bits
        case (.bits(let own), .absent): clientBits = own
        case (.bits(let own), .bits(let bits)): clientBits = min(own, bits)
        }
        return DeflateAgreement(
            server: .init(
                takesOver: !response.serverNoContextTakeover, windowBits: response.serverMaxWindowBits ?? 15),
            client: .init(
                // What it has offered it does, whether the response repeats it or not.
                takesOver: !response.clientNoContextTakeover && !clientNoContextTakeover,
                windowBits: clientBits),
            response: response)
    }
}
