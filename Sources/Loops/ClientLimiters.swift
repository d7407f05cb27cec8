import PandoConnections
import PandoReactor
import PandoSettings

/// What bounds the connections and the writes of one client over all I/O loops. Any thread.
package struct ClientLimiters: Sendable {
    /// nil where the connections of one address are not limited.
    let addresses: AddressLimiter?
    /// nil where neither the connections nor the writes of users are limited.
    let users: UserLimiter?

    init(_ configuration: Configuration) {
        addresses = configuration.makeAddressLimiter()
        users = configuration.makeUserLimiter()
    }

    private init(addresses: AddressLimiter?, users: UserLimiter?) {
        self.addresses = addresses
        self.users = users
    }

    /// The limiters after the options of a running server have changed. One whose options are the same goes
    /// on; a new one begins with nothing counted.
    package func updated(from old: Configuration, to new: Configuration) -> ClientLimiters {
        let keepsAddresses = old.addressConnectionLimit == new.addressConnectionLimit
        let keepsUsers =
            old.userConnectionLimit == new.userConnectionLimit && old.writeRates == new.writeRates
        return ClientLimiters(
            addresses: keepsAddresses ? addresses : new.makeAddressLimiter(),
            users: keepsUsers ? users : new.makeUserLimiter())
    }
}
