import ArgumentParser
import Foundation
import PandoJournal
import PandoStorage

/// `pando namespace`: which databases a directory holds. Creating and deleting needs the server stopped.
struct NamespaceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "namespace",
        abstract: "Creates, lists and deletes databases.",
        subcommands: [NamespaceCreate.self, NamespaceList.self, NamespaceDelete.self]
    )
}

struct NamespaceCreate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Creates an empty database.")

    @OptionGroup var dataOptions: DataOptions

    @Argument(help: "Letters, digits, - and _; at most 63.")
    var name: String

    func run() throws {
        var state = RecoveredState(access: .locked)
        var journal = try dataOptions.open(&state)
        guard let record = state.creationRecord(ofNamespace: name, at: Offline.milliseconds) else {
            throw ValidationError(
                "\(name): not a valid name for a database: letters, digits, - and _; at most 63")
        }
        guard state.database(named: name.lowercased()) == nil else {
            printError("\(name): exists already")
            throw Exit.badConfiguration
        }
        try Offline.append([record], to: &journal)
        try writeOutput(Array("created \(name.lowercased())\n".utf8))
    }
}

struct NamespaceList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Prints the databases' names.")

    @OptionGroup var dataOptions: DataOptions

    func run() throws {
        try writeOutput(Array(dataOptions.read().namespaceNames.map { $0 + "\n" }.joined().utf8))
    }
}

struct NamespaceDelete: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Deletes a database and everything in it.")

    @OptionGroup var dataOptions: DataOptions

    @Flag(help: "Do not ask.")
    var force = false

    @Argument(help: "The database.")
    var name: String

    func run() throws {
        var state = RecoveredState(access: .locked)
        var journal = try dataOptions.open(&state)
        let name = name.lowercased()
        guard let database = state.database(named: name) else {
            printError("\(name): there is no such database")
            throw Exit.badConfiguration
        }
        guard name != "default" else {
            printError("default: always exists")
            throw Exit.badConfiguration
        }
        guard force || database.root.isEmpty else {
            printError("\(name): holds data; --force deletes it")
            throw Exit.badConfiguration
        }
        let record = JournalRecord(
            .namespaceDeleted, namespace: database.id, timestamp: Offline.milliseconds, payload: [])
        try Offline.append([record], to: &journal)
        try writeOutput(Array("deleted \(name)\n".utf8))
    }
}
