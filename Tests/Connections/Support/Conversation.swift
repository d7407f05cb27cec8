import Testing

/// One event, and what it must lead to.
struct Step<Driver>: Sendable {
    let event: String
    let expected: [String]
    private let perform: @Sendable (inout Driver) -> [String]

    init(_ event: String, _ expected: [String], _ perform: @escaping @Sendable (inout Driver) -> [String]) {
        self.event = event
        self.expected = expected
        self.perform = perform
    }

    func run(on driver: inout Driver) -> [String] { perform(&driver) }
}

/// A row of a table: a connection, its events in order, and what each of them leads to.
struct Conversation<Driver>: Sendable, CustomTestStringConvertible {
    let name: String
    private let make: @Sendable () -> Driver
    private let steps: [Step<Driver>]

    init(_ name: String, _ make: @escaping @Sendable () -> Driver, _ steps: [Step<Driver>]) {
        self.name = name
        self.make = make
        self.steps = steps
    }

    var testDescription: String { name }

    /// Runs the steps up to the first that leads to something else.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        var driver = make()
        for (index, step) in steps.enumerated() {
            let found = step.run(on: &driver)
            #expect(
                found == step.expected, "\(name): step \(index + 1), \(step.event)",
                sourceLocation: sourceLocation)
            guard found == step.expected else { return }
        }
    }
}
