/// The type of an expression before it is evaluated (rules §5).
enum StaticType: Equatable {
    case boolean, number, string, null, pattern, array, snapshot, method, query
    /// The result of `val()` or `getPriority()`.
    case value
    /// `auth`, and everything below it.
    case auth
    case queryValue
    /// A `?` whose branches have different types.
    case mixed
    /// An expression with a reported problem. No further problem is reported for it.
    case unknown

    /// May be compared with `==` and `!=`.
    var isComparable: Bool { isText || isNumeric || self == .boolean || self == .null }

    /// May be ordered, and added.
    var isOrdered: Bool { isText || isNumeric }

    /// May be an operand of arithmetic.
    var isNumeric: Bool {
        switch self {
        case .number, .value, .auth, .queryValue, .mixed, .unknown: true
        default: false
        }
    }

    /// May be used as a string.
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

/// The methods, and the types that have them (§5, §6).
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
