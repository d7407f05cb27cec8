import ArgumentParser
import Glibc
import Testing

@testable import PandoCommandLine

struct ServerClientTests {
    @Test(
        arguments: [
            ("http://127.0.0.1:9000", true), ("http://127.0.0.1:9000/", true), ("https://example.org", true),
            ("http://[::1]:9000", true), ("ws://127.0.0.1:9000", true), ("wss://example.org/", true),
            ("wss://", false), ("wsss://a", false), ("ftp://127.0.0.1", false), ("127.0.0.1:9000", false),
            ("http://", false), ("http://a/b", false), ("http://a?b", false), ("http://user@a", false),
            ("nonsense", false),
        ] as [(String, Bool)])
    func addressIsChecked(url: String, isRight: Bool) {
        #expect(((try? ServerClient(url, token: nil)) != nil) == isRight, "\(url)")
    }

    @Test(
        arguments: [
            // pieces           may be null   because
            (["null"], true, "no data"),
            (["nu", "ll"], true, "a response may come in pieces"),
            (["n", "", "u", "l", "l\n"], true, "white space does not count"),
            ([], true, "nothing has come yet"),
            (["5"], false, "a leaf"),
            (["{\"a\":true", "}"], false, "children"),
            (["nu", "mber"], false, "another beginning"),
            (["null", "able"], false, "a longer value"),
            (["\"nu", "ll\""], false, "a string"),
        ] as [([String], Bool, String)])
    func nullIsRecognizedInPieces(pieces: [String], mayBeNull: Bool, reason: String) {
        var value = ShallowValue()
        for piece in pieces { value.append(Array(piece.utf8)) }
        #expect(value.mayBeNull == mayBeNull, "\(reason)")
    }

    /// A server that accepts connections and never responds.
    @Test func silentServerFailsTheRequest() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        // The calls read and write the structure, whose size they are given.
        unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                #expect(unsafe bind(listener, $0, length) == 0)
                #expect(unsafe getsockname(listener, $0, &length) == 0)
            }
        }
        #expect(listen(listener, 8) == 0)
        let port = UInt16(bigEndian: address.sin_port)
        let client = try ServerClient("http://127.0.0.1:\(port)", token: nil, silenceSeconds: 1)
        #expect {
            try client.get("/.json") { _ in }
        } throws: { error in
            guard let failure = error as? ServerClient.Failure else { return false }
            return failure.text.contains("it sent nothing for 1 s")
                && failure.exitCode == ExitCode(78)
        }
    }
}
