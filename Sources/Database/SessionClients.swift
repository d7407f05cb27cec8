import PandoEngine
import PandoReactor
import Synchronization

/// The address of each open session: workers count the work of all sessions of one address together. Any
/// thread.
package final class SessionClients: Sendable {
    private let addresses = Mutex<[SessionID: AddressNetwork]>([:])

    package init() {}

    /// The session is of a client at this address, from now on.
    package func note(_ session: SessionID, at address: AddressNetwork) {
        addresses.withLock { $0[session] = address }
    }

    /// The session has ended.
    /// - Returns: Its address; nil where it was not known.
    @discardableResult
    package func forget(_ session: SessionID) -> AddressNetwork? {
        addresses.withLock { $0.removeValue(forKey: session) }
    }

    /// The session's address; nil where it is not known.
    package subscript(session: SessionID) -> AddressNetwork? {
        addresses.withLock { $0[session] }
    }
}
