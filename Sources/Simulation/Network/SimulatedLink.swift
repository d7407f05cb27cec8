/// A simulated connection between a client and the server: a pipe in each direction, until one side, or the
/// network, resets it.
final class SimulatedLink {
    /// How the network carries bytes.
    enum Rate {
        /// All at once.
        case whole
        /// In pieces of any size.
        case pieces
        /// In pieces, through a receive window of so many bytes to the client.
        case slow(windowByteCount: Int)
    }

    /// Connections of one life are counted from 0.
    let number: Int
    let rate: Rate
    /// What its client does with TLS; nil without TLS.
    let secure: SecureChoice?
    var toServer = BytePipe()
    var toClient = BytePipe()
    /// Both sides get an error; what was not read is lost.
    private(set) var isReset = false

    init(number: Int, rate: Rate, secure: SecureChoice? = nil) {
        self.number = number
        self.rate = rate
        self.secure = secure
        if case .slow(let byteCount) = rate { toClient.windowByteCount = byteCount }
    }

    func reset() { isReset = true }

    /// Nothing is on its way.
    var isQuiet: Bool { isReset || toServer.isQuiet && toClient.isQuiet }
}
