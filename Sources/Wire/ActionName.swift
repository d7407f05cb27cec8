import PandoBytes

/// An action's name (realtime §4.0).
enum ActionName: Equatable {
    case statistics, listen, unlisten, get, put, merge
    case onDisconnectPut, onDisconnectMerge, onDisconnectCancel
    case authenticate, unauthenticate, appCheck, dropAppCheck
    case aggregate, endAggregate
    case unknown(Text)
    /// `a` is not a string.
    case notText

    init(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "p"): self = .put
        case UInt8(ascii: "m"): self = .merge
        case UInt8(ascii: "q"): self = .listen
        case UInt8(ascii: "n"): self = .unlisten
        case UInt8(ascii: "g"): self = .get
        case UInt8(ascii: "s"): self = .statistics
        case UInt8(ascii: "o"): self = .onDisconnectPut
        default: self = .unknown(Text(String(Unicode.Scalar(letter))))
        }
    }

    init(_ text: Text) {
        switch text {
        case "om": self = .onDisconnectMerge
        case "oc": self = .onDisconnectCancel
        case "auth", "gauth": self = .authenticate
        case "unauth": self = .unauthenticate
        case "appcheck": self = .appCheck
        case "unappcheck", "unappeck": self = .dropAppCheck
        case "x-agg": self = .aggregate
        case "x-unagg": self = .endAggregate
        default: self = text.utf8Count == 1 ? ActionName(letter: text.firstByte ?? 0) : .unknown(text)
        }
    }

    /// The action, where its body is ignored; nil where it is not.
    var actionWithoutBody: Action? {
        switch self {
        case .statistics: .statistics
        case .unauthenticate: .unauthenticate
        case .appCheck: .appCheck
        case .dropAppCheck: .dropAppCheck
        case .unknown(let text): .unknown(text)
        case .listen, .unlisten, .get, .put, .merge: nil
        case .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: nil
        case .authenticate, .aggregate, .endAggregate, .notText: nil
        }
    }

    /// The name as it was sent, for the error reply. (`auth` for `gauth`, too.)
    var name: Text {
        switch self {
        case .statistics: "s"
        case .listen: "q"
        case .unlisten: "n"
        case .get: "g"
        case .put: "p"
        case .merge: "m"
        case .onDisconnectPut: "o"
        case .onDisconnectMerge: "om"
        case .onDisconnectCancel: "oc"
        case .authenticate: "auth"
        case .unauthenticate: "unauth"
        case .appCheck: "appcheck"
        case .dropAppCheck: "unappcheck"
        case .aggregate: "x-agg"
        case .endAggregate: "x-unagg"
        case .unknown(let text): text
        case .notText: ""
        }
    }
}
