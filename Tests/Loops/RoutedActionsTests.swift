import PandoConnections
import Testing

@testable import PandoLoops

/// A session that logs the actions it carries out, and appends further ones while it does.
private final class Performer: ActionPerformer {
    private let log: Log
    /// What an action with this token leads to.
    var follow: [String: () -> Void] = [:]

    final class Log { var lines: [String] = [] }

    init(_ log: Log) { self.log = log }

    func perform(_ action: consuming ConnectionAction) {
        guard case .verify(let token) = action else { return log.lines.append("?") }
        log.lines.append("\(token) begins")
        follow["\(token)"]?()
        log.lines.append("\(token) ends")
    }
}

@Suite struct RoutedActionsTests {
    @Test func runsInTheOrderOfAppending() {
        let (actions, log) = (RoutedActions(), Performer.Log())
        let (first, second) = (Performer(log), Performer(log))
        actions.append(.verify("a"), of: first)
        actions.append(.verify("b"), of: second)
        actions.append(.verify("c"), of: first)
        #expect(log.lines == [])
        actions.run()
        #expect(log.lines == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"])
        actions.run()
        #expect(log.lines.count == 6)
    }

    /// No chain of events takes stack: what an action leads to is done after it, by the outer call.
    @Test func actionsAppendedMeanwhileFollowTheOthers() {
        let (actions, log) = (RoutedActions(), Performer.Log())
        let session = Performer(log)
        session.follow["a"] = {
            actions.append(.verify("c"), of: session)
            actions.run()
        }
        session.follow["c"] = { actions.append(.verify("d"), of: session) }
        actions.append(.verify("a"), of: session)
        actions.append(.verify("b"), of: session)
        actions.run()
        #expect(
            log.lines == [
                "a begins", "a ends", "b begins", "b ends", "c begins", "c ends", "d begins", "d ends",
            ])
        // What it has done is forgotten.
        actions.append(.verify("e"), of: session)
        actions.run()
        #expect(log.lines.suffix(2) == ["e begins", "e ends"] && log.lines.count == 10)
    }
}
