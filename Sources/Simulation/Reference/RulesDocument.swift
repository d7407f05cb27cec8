/// With whose rights a client acts.
enum Person: Equatable {
    case anonymous, user, admin
}

/// One of the rules documents that are put in force; each looks at paths and persons only.
enum RulesDocument: Int, CaseIterable {
    case open, writersSignIn, parts

    var source: String {
        switch self {
        case .open: #"{"rules":{".read":true,".write":true}}"#
        case .writersSignIn: #"{"rules":{".read":true,".write":"auth != null"}}"#
        case .parts:
            #"{"rules":{"a":{".read":true,".write":true},"c":{".read":true,".write":true},"#
                + #""p":{".read":"auth != null",".write":true}}}"#
        }
    }

    func allowsRead(_ path: [String], _ person: Person) -> Bool {
        switch self {
        case _ where person == .admin: true
        case .open, .writersSignIn: true
        case .parts: path.first == "a" || path.first == "c" || path.first == "p" && person == .user
        }
    }

    func allowsWrite(_ path: [String], _ person: Person) -> Bool {
        switch self {
        case _ where person == .admin: true
        case .open: true
        case .writersSignIn: person == .user
        case .parts: ["a", "c", "p"].contains(path.first)
        }
    }
}
