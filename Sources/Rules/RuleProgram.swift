import PandoBytes
import PandoTree

/// A compiled expression: instructions that refer to each other by index, and tables of constants.
///
///     data.child('a/b').val() != auth.uid
///     0 base before, depth 2     2 value of 1      4 notEqual 2 3     ◀ root
///     1 child 0, keys a b        3 auth.uid
///
/// Instructions are plain numbers, so evaluating one counts no references. Constants (texts, keys, split
/// paths, patterns) are made when the rules are loaded.
///
/// Always true: an instruction refers only to earlier ones, everything it refers to exists, and no chain of
/// references is longer than a few times ``RulesLimits/expressionDepth``. So evaluation may recurse along
/// them.
package final class RuleProgram: Sendable {
    enum Code: UInt8 {
        // Values
        case null, boolean, number, string
        /// `now`
        case now
        /// The key at depth `a` of the location, to which a `$x` is bound.
        case key
        /// `auth`, `auth.uid`, the claim along path `a`, and the member `b` of claim `a`
        case auth, uid, claim, claimMember
        /// The ``QueryProperty`` `a`.
        case query
        // Snapshots
        /// The ancestor at depth `b` of the rule's location in the tree before (`a` = 0) or after.
        case base
        /// Below snapshot `a`: along `c` keys from key `b` on; at the key that a `$x` of depth `b`, which is
        /// instruction `c`, is bound to; along the path that text `b` spells.
        case child, childByKey, childByText
        case parent
        /// The parent of the root: an error.
        case aboveRoot
        // Of snapshot `a`
        case value, priority, exists, isString, isNumber, isBoolean, hasChildren
        /// Whether there is data below snapshot `a` along each of the `c` paths in the list at `b`.
        case hasAllChildren
        // Of string `a`, with arguments `b` and `c`
        case contains, beginsWith, endsWith, replace, toLowerCase, toUpperCase, matches, length
        // Operators
        case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual
        case add, subtract, multiply, divide, remainder, negate, not
        /// All of a list at `a`, `b` of them.
        case and, or
        case choice

        /// Whether it searches or changes a text.
        var searchesTexts: Bool {
            switch self {
            case .contains, .beginsWith, .endsWith, .replace, .toLowerCase, .toUpperCase, .matches, .add: true
            default: false
            }
        }
    }

    struct Instruction {
        let code: Code
        var a: Int32 = 0
        var b: Int32 = 0
        var c: Int32 = 0
    }

    /// The tables of a program that is being compiled.
    struct Parts {
        var instructions: ContiguousArray<Instruction> = []
        /// The range in the rule's text of each instruction.
        var ranges: [Range<Int>] = []
        var numbers: [Double] = []
        var texts: [Text] = []
        var keys: [Key] = []
        var lists: [Int32] = []
        var claimPaths: [[Text]] = []
        var patterns: [Pattern] = []
        /// Instructions that are operands of `&&`, `||`, `!` or conditions of `?`, in the order of the text.
        var operands: [Int32] = []
    }

    let instructions: ContiguousArray<Instruction>
    let ranges: [Range<Int>]
    let numbers: [Double]
    let texts: [Text]
    let keys: [Key]
    let lists: [Int32]
    let claimPaths: [[Text]]
    let patterns: [Pattern]
    let operands: [Int32]
    let root: Int32
    /// Whether it searches or changes texts, which takes as long as they are.
    let searchesTexts: Bool

    init(_ parts: Parts, root: Int32) {
        instructions = parts.instructions
        ranges = parts.ranges
        numbers = parts.numbers
        texts = parts.texts
        keys = parts.keys
        lists = parts.lists
        claimPaths = parts.claimPaths
        patterns = parts.patterns
        operands = parts.operands
        self.root = root
        searchesTexts = parts.instructions.contains { $0.code.searchesTexts }
        assert(isWellFormed)
    }
}

/// The properties of `query` (rules §3.2).
enum QueryProperty: String, CaseIterable {
    case orderByKey, orderByValue, orderByPriority
    case orderByChild, startAt, endAt, equalTo, limitToFirst, limitToLast

    /// A flag is a Boolean; the others are QueryValues.
    var isFlag: Bool {
        switch self {
        case .orderByKey, .orderByValue, .orderByPriority: true
        default: false
        }
    }

    static let all = allCases

    /// Its place in ``all``.
    var number: Int32 { Int32(Self.all.firstIndex(of: self) ?? 0) }
}
