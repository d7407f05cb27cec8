import Foundation
import PandoSettings
import PandoStaticFiles
import PandoTLS

extension Configuration {
    /// Every problem of the files that these settings name, as a start would report it: rules, certificates,
    /// and the files of `--public`. Those of identity are `Authenticator`'s.
    /// - Complexity: Reads the files.
    package var fileProblems: [String] {
        var found: [String] = []
        if let rulesPath { found += RulesFiles(at: rulesPath).problems }
        if certificates.isUsed {
            do throws(CertificateStore.Problems) { _ = try CertificateStore(certificates) } catch {
                found += error.texts
            }
        }
        if let publicDirectory {
            do throws(StaticDirectory.Unusable) { _ = try StaticDirectory.read(publicDirectory) } catch {
                found.append("--public: \(error)")
            }
        }
        return found
    }

    /// Warnings about the files of secrets: those that every user of the machine may read. Those of
    /// certificates are `CertificateStore`'s.
    package var fileWarnings: [String] {
        identity.secrets.compactMap { secret in
            guard case .file(let path) = secret.place,
                // Kubernetes mounts secrets as symbolic links, whose own mode says nothing.
                let mode =
                    (try? FileManager.default.attributesOfItem(
                        atPath: URL(fileURLWithPath: path).resolvingSymlinksInPath().path))?[
                        .posixPermissions]
                    as? NSNumber,
                mode.uint32Value & Self.readableByOthers != 0
            else { return nil }
            return
                "\(path): every user of this machine may read the secret, and sign tokens with it; chmod o-r it"
        }
    }

    /// S_IROTH.
    private static var readableByOthers: UInt32 { 0o004 }
}
