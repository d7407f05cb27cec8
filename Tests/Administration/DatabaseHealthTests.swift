import Testing

@testable import PandoAdministration

@Suite struct DatabaseHealthTests {
    @Test(
        arguments: [
            (nil, nil), (.zero, nil), (DatabaseHealth.turnLimit, nil),
            (
                DatabaseHealth.turnLimit + .milliseconds(2500),
                "blocked: the databases have not finished a turn for 12 s"
            ),
        ] as [(Duration?, String?)])
    func turnThatDoesNotEndIsAProblem(turn: Duration?, problem: String?) {
        #expect(DatabaseHealth(unfinishedTurn: turn).problem == problem)
    }
}
