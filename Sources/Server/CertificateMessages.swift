import Logging
import PandoTLS

extension Logger {
    /// Logs what became of the files of certificates.
    func log(_ message: CertificateStore.Message) {
        switch message.level {
        case .notice: notice("\(message.text)")
        case .warning: warning("\(message.text)")
        case .error: error("\(message.text)")
        }
    }
}
