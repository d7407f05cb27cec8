import COperatingSystem
import Testing

@testable import PandoReactor

@Suite struct ServiceManagerTests {
    @Test(
        arguments: [
            (ServiceManager.State.ready, "READY=1\nSTATUS=serving clients\n"),
            (.reloading, "RELOADING=1\nMONOTONIC_USEC=42\nSTATUS=reading files again\n"),
            (.stopping, "STOPPING=1\nSTATUS=ending sessions\n"),
        ])
    func messages(state: ServiceManager.State, expected: String) {
        #expect(state.message(at: 42) == expected)
    }

    @Test(arguments: [[:], ["NOTIFY_SOCKET": ""]])
    func withoutAManagerNothingIsSent(environment: [String: String]) throws {
        try ServiceManager(environment).notify(.ready)
    }

    @Test(
        arguments: [
            "relative", "/", "@", "vsock:2:1234", "/tmp/pando\0x", "/nowhere/at/all/notify",
            "@pando-nobody-listens", "/tmp/" + String(repeating: "a", count: 200),
        ])
    func managersThatCannotBeReached(name: String) {
        #expect(throws: SocketError.self) { try ServiceManager(["NOTIFY_SOCKET": name]).notify(.ready) }
    }
}
