import PandoBytes

/// An operation over many children, as one client asks for it over REST.
enum HeavyOperation: String, CaseIterable, Sendable {
    /// Nothing: the bystander alone.
    case quiet
    case getTen = "get-ten", getTenByText = "get-ten-by-text", getRange = "get-range", shallow, getAll =
        "get-all"
    /// 10 MB that replace as much.
    case put10MB = "put-10-mb"
    case merge10k = "merge-10k", merge100k = "merge-100k"
    /// Rules that name other indexes, and those of before.
    case rules
    /// 10 MB, under rules that look at each child of it.
    case putValidated = "put-validated", postValidated = "post-validated"
    /// A sum over half of the children.
    case aggregate
    /// All children.
    case remove

    /// Children of a write of 10 MB.
    static let largeWriteChildCount = 200_000
    /// Children of one write of the data.
    private static let childrenPerWrite = 20_000

    /// A request. Without the leading slash.
    struct Request {
        var method: StaticString = "GET"
        var path: String
        var parameters = ""
        /// Without the token: the rules decide.
        var isAnonymous = false
        var body: [UInt8]?
    }

    /// The requests that write the data of all operations, and its rules.
    static func preparation(at site: HostileSite, childCount: Int) -> [Request] {
        var requests = [Request(method: "PUT", path: rulesPath, body: rules(at: site))]
        for start in stride(from: 0, to: childCount, by: childrenPerWrite) {
            requests.append(
                Request(
                    method: "PATCH", path: listPath(site), parameters: silent,
                    body: children(start..<min(childCount, start + childrenPerWrite), adding: 0)))
        }
        requests.append(
            Request(method: "PUT", path: otherPath(site), parameters: silent, body: largeWrite(0)))
        return requests
    }

    /// What is asked for, one request after the other.
    func requests(at site: HostileSite, round: Int, childCount: Int) -> [Request] {
        let list = Self.listPath(site)
        switch self {
        case .quiet: return []
        case .getTen:
            return [Request(path: list, parameters: #"&orderBy=%22n%22&limitToLast=10"#)]
        case .getTenByText:
            return [
                Request(path: list, parameters: #"&orderBy=%22s%22&startAt=%22player%205%22&limitToFirst=10"#)
            ]
        case .getRange:
            return [
                Request(path: list, parameters: #"&orderBy=%22n%22&startAt=0&endAt=\#(childCount / 100)"#)
            ]
        case .shallow: return [Request(path: list, parameters: "&shallow=true")]
        case .getAll: return [Request(path: list)]
        case .put10MB:
            return [
                Request(
                    method: "PUT", path: Self.otherPath(site), parameters: Self.silent,
                    body: Self.largeWrite(round + 1))
            ]
        case .merge10k, .merge100k:
            let count = self == .merge10k ? 10_000 : 100_000
            return [
                Request(
                    method: "PATCH", path: list, parameters: Self.silent,
                    body: Self.children(0..<min(count, childCount), adding: round + 1))
            ]
        case .rules:
            return [
                Request(method: "PUT", path: Self.rulesPath, body: Self.rules(at: site, indexes: #"["n"]"#)),
                Request(method: "PUT", path: Self.rulesPath, body: Self.rules(at: site)),
            ]
        case .putValidated:
            return [
                Request(
                    method: "PUT", path: Self.validatedPath(site), parameters: Self.silent, isAnonymous: true,
                    body: Self.largeWrite(round + 1))
            ]
        case .postValidated:
            return [
                Request(
                    method: "POST", path: Self.validatedPath(site) + "/posts", parameters: Self.silent,
                    isAnonymous: true, body: Self.largeWrite(round + 1)),
                Request(method: "DELETE", path: Self.validatedPath(site) + "/posts"),
            ]
        case .aggregate:
            return [
                Request(
                    path: list,
                    parameters: #"&orderBy=%22n%22&startAt=500000&aggregate=count,sum(n)"#)
            ]
        case .remove:
            return [Request(method: "DELETE", path: list)]
        }
    }

    // MARK: Data

    private static let silent = "&print=silent"
    private static let rulesPath = ".settings/rules"
    private static func listPath(_ site: HostileSite) -> String { "\(site.root)/data/list" }
    private static func otherPath(_ site: HostileSite) -> String { "\(site.root)/data/other" }
    private static func validatedPath(_ site: HostileSite) -> String { "\(site.root)/data/validated" }

    /// The request that restores what the server had before.
    static func restoredRules(_ rules: [UInt8]) -> Request {
        Request(method: "PUT", path: rulesPath, body: rules)
    }
    static let rulesRequest = Request(path: rulesPath)

    private static func rules(at site: HostileSite, indexes: String = #"["n","s"]"#) -> [UInt8] {
        let keys = site.root.split(separator: "/")
        let isPlayer = "newData.hasChildren(['n','s']) && newData.child('n').isNumber()"
        var text = #"""
            "data":{"list":{".indexOn":\#(indexes)},"other":{".indexOn":["n"]},
              "validated":{"$k":{".validate":"\#(isPlayer)"},"posts":{"$p":{"$k":{".validate":"\#(isPlayer)"}}}}}
            """#
        for key in keys.reversed() { text = #""\#(key)":{\#(text)}"# }
        return Array(#"{"rules":{".read":true,".write":true,\#(text)}}"#.utf8)
    }

    private static func largeWrite(_ round: Int) -> [UInt8] {
        children(0..<largeWriteChildCount, adding: round)
    }

    /// `{"c0":{"n":…,"s":"player …"},…}`: some fifty bytes for each child.
    private static func children(_ numbers: Range<Int>, adding round: Int) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(numbers.count * 56)
        for number in numbers {
            body.append(number == numbers.lowerBound ? "{" : ",")
            body.append(#""c"#)
            body.append(decimal: Int64(number))
            body.append(#"":{"n":"#)
            body.append(decimal: Int64(number &* 7919 % 1_000_003 + round))
            body.append(#","s":"player "#)
            body.append(decimal: Int64(number &* 104_729 % 1_000_003))
            body.append(#""}"#)
        }
        body.append("}")
        return body
    }
}
