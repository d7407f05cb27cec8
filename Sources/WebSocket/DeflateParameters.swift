import PandoBytes

/// The parameters of permessage-deflate (RFC 7692 §7.1), as an offer of the client or a response of the
/// server states them.
package struct DeflateParameters: Hashable, Sendable {
    /// What is said about the window of the client's compression (RFC 7692 §7.1.2.2).
    package enum ClientWindow: Hashable, Sendable {
        /// Nothing: in an offer, the client does not understand the parameter.
        case absent
        /// Offers only: the client understands the parameter and lets the server choose.
        case anySize
        /// At most 2^n bytes, 8…15.
        case bits(Int)
    }

    /// `server_no_context_takeover`: the server compresses each message by itself.
    package var serverNoContextTakeover = false
    /// `client_no_context_takeover`: the same for the client; in an offer a hint only.
    package var clientNoContextTakeover = false
    /// `server_max_window_bits`: the server's window has at most 2^n bytes, 8…15; nil where nothing is said.
    package var serverMaxWindowBits: Int?
    /// `client_max_window_bits`.
    package var clientMaxWindowBits = ClientWindow.absent

    /// The name of the extension.
    static let extensionName: StaticString = "permessage-deflate"
    /// The windows that RFC 7692 §7.1.2 knows.
    package static let windowBits = 8...15

    /// Nothing is said.
    package init() {}

    /// Reads an element of `Sec-WebSocket-Extensions`.
    /// - Parameter isOffer: Whether it is the client's.
    /// - Returns: nil where a parameter is unknown, repeated, or has an invalid value: an offer is then
    ///   declined (RFC 7692 §7), a response fails the handshake.
    init?(_ element: ExtensionElement, isOffer: Bool) {
        guard element.name == "\(Self.extensionName)" else { return nil }
        for (index, parameter) in element.parameters.enumerated() {
            guard !element.parameters[..<index].contains(where: { $0.name == parameter.name }) else {
                return nil
            }
            switch (parameter.name, parameter.value) {
            case ("server_no_context_takeover", nil): serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): clientNoContextTakeover = true
            case ("server_max_window_bits", let value?):
                guard let bits = Self.readWindowBits(value) else { return nil }
                serverMaxWindowBits = bits
            case ("client_max_window_bits", nil) where isOffer: clientMaxWindowBits = .anySize
            case ("client_max_window_bits", let value?):
                guard let bits = Self.readWindowBits(value) else { return nil }
                clientMaxWindowBits = .bits(bits)
            default: return nil
            }
        }
    }

    /// A decimal number without leading zeros (RFC 7692 §7.1.2).
    private static func readWindowBits(_ text: String) -> Int? {
        windowBits.first { "\($0)" == text }
    }

    /// Appends a field `Sec-WebSocket-Extensions`.
    func append(to output: inout [UInt8]) {
        var value = "\(Self.extensionName)"
        if serverNoContextTakeover { value += "; server_no_context_takeover" }
        if clientNoContextTakeover { value += "; client_no_context_takeover" }
        if let serverMaxWindowBits { value += "; server_max_window_bits=\(serverMaxWindowBits)" }
        switch clientMaxWindowBits {
        case .absent: break
        case .anySize: value += "; client_max_window_bits"
        case .bits(let bits): value += "; client_max_window_bits=\(bits)"
        }
        output.append(field: "Sec-WebSocket-Extensions", text: value)
    }
}
