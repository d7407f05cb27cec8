import PandoBytes
import PandoHTTP
import PandoTree

/// A JSON object for an administrator, perhaps with a value of the tree in its middle, which is printed while
/// it is sent (rest §10).
package struct RESTReport: Sendable {
    package enum Status: Sendable {
        case ok
        case badRequest
        /// The moment is not kept any more.
        case gone
        case tooLarge
        case failed
        /// The server cannot do it in its configuration.
        case notImplemented
        /// Too much of it is being done.
        case unavailable
    }

    package var status: Status
    /// The JSON before the value: all of it where there is none.
    package var prefix: [UInt8]
    package var node: Node?
    /// About the bytes of memory that ``node`` takes, where only this report holds it; else 0.
    package var nodeByteCount = 0
    /// The JSON behind the value.
    package var suffix: [UInt8]

    package init(_ status: Status = .ok, prefix: [UInt8], node: Node? = nil, suffix: [UInt8] = []) {
        self.status = status
        self.prefix = prefix
        self.node = node
        self.suffix = suffix
    }

    /// A report of one error.
    /// - Parameter members: Further members of the object, each behind a comma.
    package init(_ status: Status, error text: String, members: [UInt8] = []) {
        var json: [UInt8] = []
        json.append("{\"error\":")
        json.append(json: Text(text))
        json += members
        json.append("}")
        self.init(status, prefix: json)
    }

    var httpStatus: HTTPStatus {
        switch status {
        case .ok: .ok
        case .badRequest: .badRequest
        case .gone: .gone
        case .tooLarge: .contentTooLarge
        case .failed: .internalServerError
        case .notImplemented: .notImplemented
        case .unavailable: .serviceUnavailable
        }
    }
}
