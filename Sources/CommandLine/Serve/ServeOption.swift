import PandoSettings

/// One option of `pando serve`. Its row in ``all`` is the only place that declares it: the flag
/// (`--in-flight-limit`), the environment variable (`PANDO_IN_FLIGHT_LIMIT`), the key of the configuration
/// file (`"in-flight-limit"`), the help text and the check of the value all come from there.
struct ServeOption: Sendable {
    /// How the option is written on the command line.
    enum Form: Equatable, Sendable {
        /// `--name`, without a value; `true` or `false` elsewhere.
        case flag
        /// `--name VALUE`. The associated value is the placeholder that the help shows.
        case value(placeholder: String)
        /// `--name VALUE`, any number of times; a list in the file. The values are joined by line feeds.
        case list(placeholder: String)
    }

    /// Why a text is no value of an option.
    enum Problem: Error, Equatable, CustomStringConvertible {
        /// The text is not of the option's type: `many` for a port.
        case wrongType(String)
        /// The text is of the option's type, and the value is not allowed.
        case notAllowed(String)

        var description: String {
            switch self {
            case .wrongType(let text), .notAllowed(let text): text
            }
        }
    }

    /// The name as in `--name` and as in the configuration file.
    let name: String
    let form: Form
    /// Includes the default value, where there is one.
    let help: String
    /// Whether a running server takes over another value, on SIGHUP.
    private(set) var reloads = false
    private let set: @Sendable (inout Configuration, String) throws(Problem) -> Void

    /// - Parameters:
    ///   - standard: The default value as the help shows it; nil where there is none.
    ///   - set: Writes the value into a configuration, or throws what is wrong with the text.
    init(
        _ name: String, _ form: Form, default standard: String? = nil, _ help: String,
        set: @escaping @Sendable (inout Configuration, String) throws(Problem) -> Void
    ) {
        self.name = name
        self.form = form
        self.help = standard.map { "\(help) (default: \($0))" } ?? help
        self.set = set
    }

    /// `PANDO_IN_FLIGHT_LIMIT` for `in-flight-limit`.
    var environmentName: String {
        "PANDO_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    /// The same option, with the mark that a running server takes over another value
    /// (`Configuration.takeOver`).
    var reloading: ServeOption {
        var option = self
        option.reloads = true
        return option
    }

    /// Writes the value that `text` stands for into `configuration`.
    /// - Throws: ``Problem``; `configuration` is then not used.
    func apply(_ text: String, to configuration: inout Configuration) throws(Problem) {
        try set(&configuration, text)
    }
}

extension ServeOption {
    /// An option that is off unless given.
    static func flag(
        _ name: String, _ property: any WritableKeyPath<Configuration, Bool> & Sendable, _ help: String
    ) -> ServeOption {
        ServeOption(name, .flag, help) { configuration, text throws(Problem) in
            guard let value = Bool(text) else { throw .wrongType("\"\(text)\" is not true or false") }
            configuration[keyPath: property] = value
        }
    }

    /// A text that must not be empty.
    static func text(
        _ name: String, _ placeholder: String, default standard: String? = nil,
        _ property: any WritableKeyPath<Configuration, String?> & Sendable, _ help: String
    ) -> ServeOption {
        ServeOption(name, .value(placeholder: placeholder), default: standard, help) {
            configuration, text throws(Problem) in
            guard !text.isEmpty else { throw .notAllowed("the value is empty") }
            configuration[keyPath: property] = text
        }
    }

    /// One of the words of an enum.
    static func choice<Value: RawRepresentable<String> & CaseIterable & SendableMetatype>(
        _ name: String, _ property: any WritableKeyPath<Configuration, Value> & Sendable, _ help: String
    ) -> ServeOption {
        let words = Value.allCases.map(\.rawValue).joined(separator: ", ")
        let standard = Configuration()[keyPath: property].rawValue
        return ServeOption(name, .value(placeholder: name), default: standard, help) {
            configuration, text throws(Problem) in
            guard let value = Value(rawValue: text) else {
                throw .wrongType("\"\(text)\" is not one of \(words)")
            }
            configuration[keyPath: property] = value
        }
    }

    /// What a number counts; the help's placeholder.
    enum Unit: String { case bytes, seconds, count, port }

    /// A number.
    /// - Parameters:
    ///   - range: The values that are allowed.
    ///   - zeroMeaning: 0 is allowed besides the range, and means this; nil where it is not.
    ///   - reason: Why others are not allowed, for the message.
    ///   - standard: The default as the help shows it; the property's own value when nil.
    static func number(
        _ name: String, _ unit: Unit, in range: ClosedRange<Int>, zero zeroMeaning: String? = nil,
        because reason: String? = nil, default standard: String? = nil,
        _ property: any WritableKeyPath<Configuration, Int> & Sendable, _ help: String
    ) -> ServeOption {
        let standard = standard ?? String(Configuration()[keyPath: property])
        let numbers = Numbers(unit: unit, range: range, zeroMeaning: zeroMeaning, reason: reason)
        return ServeOption(name, .value(placeholder: unit.rawValue), default: standard, help) {
            configuration, text throws(Problem) in
            configuration[keyPath: property] = try numbers.read(text)
        }
    }

    /// A time with its unit, such as `30m`.
    /// - Parameters:
    ///   - range: In seconds.
    ///   - zeroWord: A word for zero, which is then allowed.
    ///   - standard: The default as the help shows it.
    static func duration(
        _ name: String, in range: ClosedRange<Int>, zero zeroWord: String, default standard: String,
        _ property: any WritableKeyPath<Configuration, Duration> & Sendable, _ help: String
    ) -> ServeOption {
        ServeOption(name, .value(placeholder: "duration"), default: standard, help) {
            configuration, text throws(Problem) in
            if text == zeroWord || text == "0" {
                configuration[keyPath: property] = .zero
                return
            }
            guard let seconds = Self.seconds(of: text) else {
                throw .wrongType("\"\(text)\" is not a time, such as 90s, 30m, 1h or 7d")
            }
            guard range.contains(seconds) else {
                throw .notAllowed(
                    "must be \(zeroWord), or \(range.lowerBound) to \(range.upperBound) seconds")
            }
            configuration[keyPath: property] = .seconds(seconds)
        }
    }

    /// Reads a number of seconds, or one with `s`, `m`, `h` or `d` behind it; nil for anything else.
    private static func seconds(of text: String) -> Int? {
        let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
            let number = Int(digits)
        else { return nil }
        let (seconds, overflows) = number.multipliedReportingOverflow(by: unit ?? 1)
        return overflows ? .max : seconds
    }

    /// A time in whole seconds.
    static func seconds(
        _ name: String, in range: ClosedRange<Int>, zero zeroMeaning: String? = nil,
        because reason: String? = nil, _ property: any WritableKeyPath<Configuration, Duration> & Sendable,
        _ help: String
    ) -> ServeOption {
        let standard = String(Configuration()[keyPath: property].components.seconds)
        let numbers = Numbers(unit: .seconds, range: range, zeroMeaning: zeroMeaning, reason: reason)
        return ServeOption(name, .value(placeholder: Unit.seconds.rawValue), default: standard, help) {
            configuration, text throws(Problem) in
            configuration[keyPath: property] = .seconds(try numbers.read(text))
        }
    }
}

/// The numbers that an option takes.
struct Numbers: Sendable {
    let unit: ServeOption.Unit
    let range: ClosedRange<Int>
    /// 0 is allowed besides the range, and means this; nil where it is not.
    let zeroMeaning: String?
    let reason: String?

    func read(_ text: String) throws(ServeOption.Problem) -> Int {
        guard let value = Int(text) else { throw .wrongType("\"\(text)\" is not a number") }
        guard range.contains(value) || (value == 0 && zeroMeaning != nil) else { throw .notAllowed(words) }
        return value
    }

    /// `must be 0 (never) or 60 to 3600 seconds: the reason`
    private var words: String {
        let zero = zeroMeaning.map { "0 (\($0)) or " } ?? ""
        let unitWord =
            switch unit {
            case .bytes, .seconds: " \(unit.rawValue)"
            case .count, .port: ""
            }
        let reason = reason.map { ": \($0)" } ?? ""
        return "must be \(zero)\(range.lowerBound) to \(range.upperBound)\(unitWord)\(reason)"
    }
}
