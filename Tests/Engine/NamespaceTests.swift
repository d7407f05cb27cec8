import PandoBytes
import Testing

@testable import PandoEngine

@Suite struct NamespaceTests {
    @Test(
        arguments: [
            ("demo", "demo", "plain"),
            ("Demo-1_x", "demo-1_x", "names compare without case (realtime §1.3)"),
            (String(repeating: "a", count: 63), String(repeating: "a", count: 63), "a label of a host fits"),
            (String(repeating: "a", count: 64), nil, "more does not"),
            ("", nil, "nothing is no name"),
            ("a.b", nil, "no dots: it could not be a label"),
            ("a/b", nil, "no paths"),
            ("é", nil, "ASCII only"),
            ("a\0", nil, "no control characters"),
            ("\u{212A}", nil, "not what becomes ASCII in lower case"),
            (String(repeating: "a", count: 63) + "é", nil, "not what is left without a last character"),
            (String(repeating: "a", count: 61) + "\u{1F600}", nil, "of any width"),
        ] as [(String, String?, String)])
    func canonical(text: String, name: String?, because: String) {
        #expect(NamespaceName.canonical(text) == name, "\(because)")
        #expect(NamespaceName.canonical(NamespaceName.received(Text(text))) == name, "\(because)")
    }

    @Test(
        arguments: [
            ("demo.firebaseio.com", "demo", "three labels"),
            ("demo.europe-west1.firebasedatabase.app:443", "demo", "four, and a port"),
            ("demo.localhost.test", "demo", "not only Firebase's"),
            ("localhost:9000", nil, "one label names nothing"),
            ("example.com", nil, "nor do two"),
            ("127.0.0.1:9000", nil, "an address is no name"),
            ("[::1]:9000", nil, "of either kind"),
            ("demo.example.com.", "demo", "the absolute form is the same name"),
            ("demo.example.com.:443", "demo", "with a port, too"),
            ("example.com.", nil, "its dot makes no third label"),
            ("127.0.0.1.", nil, "nor a name of an address"),
            ("a..com", nil, "an empty label"),
            ("", nil, "no host at all"),
        ] as [(String, String?, String)])
    func fromHost(host: String, name: String?, because: String) {
        #expect(NamespaceName.fromHost(host) == name, "\(because)")
    }
}
