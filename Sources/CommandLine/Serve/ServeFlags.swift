import ArgumentParser
import PandoSettings

//  ArgumentParser finds options by looking at the stored properties of a type (`Mirror`). A type may describe
//  itself to `Mirror` (`CustomReflectable`), so this one shows a property for each row of the table, and
//  reads them back by the rows' names. So parsing, help, usage errors and shell completion are
//  ArgumentParser's, and the table stays the only declaration.

/// The options of ``ServeOption/all`` on the command line.
struct ServeFlags: ParsableArguments, CustomReflectable {
    /// The texts of the options that were given, by the options' names.
    private(set) var given: [String: String] = [:]

    init() {}

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: OptionName.self)
        for option in ServeOption.all {
            let key = OptionName(stringValue: option.name)
            switch option.form {
            case .flag:
                if try container.decode(Flag<Bool>.self, forKey: key).wrappedValue {
                    given[option.name] = "true"
                }
            case .value:
                given[option.name] = try container.decode(Option<String?>.self, forKey: key).wrappedValue
            case .list:
                let texts = try container.decode(Option<[String]>.self, forKey: key).wrappedValue
                if !texts.isEmpty { given[option.name] = texts.joined(separator: "\n") }
            }
        }
    }

    var customMirror: Mirror {
        Mirror(self, children: ServeOption.all.map { (label: $0.name, value: $0.definition) })
    }
}

/// The key under which ArgumentParser has the value of a row.
private struct OptionName: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }

    init?(intValue: Int) { nil }
}

extension ServeOption {
    /// The row as ArgumentParser's property wrapper.
    fileprivate var definition: any Sendable {
        switch form {
        case .flag: Flag(wrappedValue: false, name: .customLong(name), help: ArgumentHelp(help))
        case .value(let placeholder):
            Option<String?>(
                name: .customLong(name), help: ArgumentHelp(help, valueName: placeholder),
                transform: checkType)
        case .list(let placeholder):
            Option<[String]>(
                wrappedValue: [], name: .customLong(name), help: ArgumentHelp(help, valueName: placeholder),
                transform: checkType)
        }
    }

    /// Refuses a text of the wrong type as wrong usage. A value that is not allowed is reported later,
    /// together with everything else that is wrong with the configuration.
    @Sendable private func checkType(_ text: String) throws -> String {
        var scratch = Configuration()
        do throws(Problem) {
            try apply(text, to: &scratch)
        } catch {
            if case .wrongType = error { throw error }
        }
        return text
    }
}
