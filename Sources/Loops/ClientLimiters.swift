import PandoConnections
import PandoReactor
import PandoSettings

/// What bounds the connections and the writes of one client over all I/O loops. Any thread.
package struct ClientLimiters: Sendable {
    /// nil where the connections of one address are not limited.
    let addresses: AddressLimiter?
    /// The same of its sessions by long polling, where it is connected directly: they need no connection.
    let pollingSessions: AddressLimiter?
    /// nil where neither the connections nor the writes of users are limited.
    let users: UserLimiter?

    init(_ configuration: Configuration) {
        addresses = configuration.makeAddressLimiter()
        pollingSessions = configuration.makeAddressLimiter()
        users = configuration.makeUserLimiter()
    }

    private init(addresses: AddressLimiter?, pollingSessions: AddressLimiter?, users: UserLimiter?) {
        self.addresses = addresses
        self.pollingSessions = pollingSessions
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
            pollingSessions: keepsAddresses ? pollingSessions : new.makeAddressLimiter(),
            users: keepsUsers ? users : new.makeUserLimiter())
    }
}
