import Testing

@testable import PandoServer

@Suite struct BlockedTurnTests {
    @Test func onlyATurnBeyondTheLimitEndsTheProcess() {
        #expect(BlockedTurn.lastWords(unfinishedTurn: nil) == nil)
        #expect(BlockedTurn.lastWords(unfinishedTurn: BlockedTurn.stopLimit) == nil)
        let text = BlockedTurn.lastWords(unfinishedTurn: BlockedTurn.stopLimit + .seconds(5))
        #expect(text?.contains("pando-database") == true && text?.contains("35 s") == true)
    }
}
