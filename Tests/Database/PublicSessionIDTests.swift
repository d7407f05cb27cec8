import PandoBytes
import Testing

@testable import PandoDatabase

@Suite struct PublicSessionIDTests {
    @Test func publicSessionIDsRoundTrip() throws {
        for _ in 0..<100 {
            let id = PublicSessionID(.machine)
            #expect(id.text.utf8Count == 32)
            #expect(try #require(PublicSessionID(id.text)) == id)
        }
        #expect(
            try #require(PublicSessionID("000000000000000a00000000000000ff")).text
                == "000000000000000a00000000000000ff")
    }

    @Test(arguments: [
        "", "0", String(repeating: "0", count: 31), String(repeating: "0", count: 33),
        String(repeating: "A", count: 32),
        "+" + String(repeating: "0", count: 31),
        String(repeating: "0", count: 16) + "-" + String(repeating: "0", count: 15),
        String(repeating: "g", count: 32), String(repeating: "é", count: 16),
        String(repeating: "０", count: 32),
    ])
    func othersAreNone(text: String) {
        #expect(PublicSessionID(Text(text)) == nil)
    }
}
