import PandoAdministration
import PandoLoops
import PandoReactor
import PandoSettings
import PandoTLS

extension Server {
    private static func resolve(_ host: String, port: UInt16) throws(StartError) -> SocketAddress {
        do throws(SocketError) {
            if let address = try SocketAddress.resolve(host: host, port: port).first { return address }
        } catch {
            throw .address("--admin-listen: \(error)")
        }
        throw .address("--admin-listen: \(host): no such address")
    }

    /// Where `--admin-listen` says; nil without it.
    private static func adminAddress(
        _ configuration: Configuration, _ certificates: CertificateStore?
    ) throws(StartError) -> SocketAddress? {
        guard let address = configuration.adminAddress else { return nil }
        let resolved = try resolve(address.host, port: address.port)
        // A name that was taken for a loopback address may resolve to another one.
        guard resolved.isLoopback || certificates != nil && !configuration.isDevelopment else {
            throw .address("--admin-listen: \(resolved.host) is not a loopback address")
        }
        return resolved
    }

    /// Makes the admin thread's server, and binds its listener where there is to be one.
    static func makeAdmin(
        _ resources: LoopResources, _ sources: AdminSources
    ) throws -> AdminServer {
        let address = try adminAddress(resources.configuration, resources.certificates)
        let loop = try AdminServer.makeLoop()
        do throws(SocketError) {
            return try AdminServer(at: address, on: loop, resources, sources)
        } catch {
            throw StartError.address("--admin-listen: \(error)")
        }
    }
}
