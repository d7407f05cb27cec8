import PandoWebSocket

extension DeflateParameters {
    /// What clients of a load generator offer: without state for each connection on either side.
    package static let withoutTakeover: DeflateParameters = {
        var offer = DeflateParameters()
        offer.serverNoContextTakeover = true
        offer.clientNoContextTakeover = true
        return offer
    }()
}
