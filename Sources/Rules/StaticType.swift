/// What is known of an expression before it runs (rules §5).
enum StaticType: Equatable {
    case boolean, number, string, null, pattern, array, snapshot, method, query
    /// What `val()` or `getPriority()` gives.
    case value
    /// `auth`, and whatever is under it.
    case auth
    case queryValue
    /// Of a `?` with different branches.
    case mixed
    /// Of what has been complained about: nothing more is said of it.
    case unknown

    /// May be compared with `==` and `!=`.
    var isComparable: Bool { isText || isNumeric || self == .boolean || self == .null }

    /// May be ordered, and added.
    var isOrdered: Bool { isText || isNumeric }

    /// May be calculated with.
    var isNumeric: Bool {
        switch self {
        case .number, .value, .auth, .queryValue, .mixed, .unknown: true
        default: false
        }
    }

    /// May be where a string is asked for.
    var isText: Bool {
        switch self {
        case .string, .value, .auth, .mixed, .unknown: true
        default: false
        }
    }

    var isBoolean: Bool { self == .boolean || self == .unknown }

    /// Has the methods of a string.
    var hasTextMembers: Bool { self == .string || self == .value || self == .auth }
}

/// What can be called, and on what (§5, §6).
enum RuleMethod: String {
    case val, exists, isString, isNumber, isBoolean, parent, getPriority, child, hasChild, hasChildren
    case contains, beginsWith, endsWith, replace, toLowerCase, toUpperCase, matches

    init?(_ name: String, of type: StaticType) {
        guard let method = RuleMethod(rawValue: name) else { return nil }
        switch method {
        case .val, .exists, .isString, .isNumber, .isBoolean, .parent, .getPriority, .child, .hasChild,
            .hasChildren:
            guard type == .snapshot else { return nil }
        case .contains, .beginsWith, .endsWith, .replace, .toLowerCase, .toUpperCase, .matches:
            guard type.hasTextMembers else { return nil }
        }
        self = method
    }
}
