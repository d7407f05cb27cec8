import PandoAdministration
import PandoSettings

extension Configuration {
    /// Descriptors for what is not among the clients' connections: the connections of the admin port and of
    /// the port that redirects, and listening sockets but for one.
    var otherPortDescriptorCount: Int {
        // Sockets that were passed are open already.
        var count = max(0, places.count - 1)
        if adminAddress != nil { count += 1 + AdminServer.connectionLimit }
        if redirectPort != nil {
            count += passedSockets.count + places.count + RedirectPort.connectionLimit
        }
        return count
    }
}
