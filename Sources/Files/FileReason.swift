import Foundation

extension Error {
    /// Why Foundation could not read or write a file, in the system's words: `Not a directory`. Foundation's
    /// own text is a number for most reasons.
    package var fileReason: String {
        let underlying = (self as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
        let reason = (underlying ?? self) as NSError
        guard reason.domain == NSPOSIXErrorDomain else { return localizedDescription }
        // A constant of the C library, ended by NUL.
        return unsafe String(cString: strerror(Int32(truncatingIfNeeded: reason.code)))
    }
}
