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
}
