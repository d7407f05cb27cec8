import Testing

@testable import PandoServer

@Suite struct BlockedTurnTests {
    @Test func onlyATurnBeyondTheLimitEndsTheProcess() {
        #expect(BlockedTurn.exitMessage(unfinishedTurn: nil) == nil)
        #expect(BlockedTurn.exitMessage(unfinishedTurn: BlockedTurn.stopLimit) == nil)
        let text = BlockedTurn.exitMessage(unfinishedTurn: BlockedTurn.stopLimit + .seconds(5))
        #expect(text?.contains("pando-database") == true && text?.contains("35 s") == true)
    }
}
