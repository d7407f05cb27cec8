import Testing

@testable import PandoTLS

#if canImport(Glibc)
    import Glibc
#endif

/// A directory that is removed at the end.
final class Folder {
    let path: String

    init() {
        var template = Array("/tmp/pando-tls-XXXXXX".utf8CString)
        path = unsafe String(cString: mkdtemp(&template)!)
    }

    deinit { remove(in: path) }

    private func remove(in folder: String) {
        for name in CertificateFile.names(in: folder) ?? [] {
            let child = folder + "/" + name
            if unsafe unlink(child) != 0 { remove(in: child) }
        }
        unsafe rmdir(folder)
    }

    /// Writes as an editor does: a new file that takes the place of the old one.
    func write(_ bytes: [UInt8], to name: String, mode: mode_t = 0o600) {
        let parts = name.split(separator: "/")
        if parts.count > 1 { unsafe mkdir(path + "/" + parts[0], 0o700) }
        let temporary = path + "/.new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode)
        _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
        close(descriptor)
        unsafe rename(temporary, path + "/" + name)
    }

    func delete(_ name: String) { _ = unsafe unlink(path + "/" + name) }
}

@Suite struct CertificateStoreTests {
    let folder = Folder()
    let now: Int64 = 1_800_000_000

    func write(_ source: String, as name: String) {
        folder.write(fixture(source + ".pem"), to: name + "/fullchain.pem")
        folder.write(fixture(source + ".key"), to: name + "/privkey.pem")
    }

    func directory() -> CertificateLocations {
        var locations = CertificateLocations()
        locations.directory = folder.path
        return locations
    }

    /// Whether a client with a certificate of `issuer.pem` is an administrator; nil where the handshake
    /// fails.
    func isAdministrator(of store: CertificateStore) throws -> Bool? {
        let pair = try Pair(store.context, try clientContext(identity: "client"))
        pair.exchange()
        return pair.server.tls.facts?.isAdministrator
    }

    func pair() -> CertificateLocations {
        var locations = CertificateLocations()
        folder.write(fixture("localhost.pem"), to: "cert.pem")
        folder.write(fixture("localhost.key"), to: "key.pem")
        locations.certificate = folder.path + "/cert.pem"
        locations.key = folder.path + "/key.pem"
        return locations
    }

    func names(_ store: CertificateStore, _ host: String) -> [String] {
        store.context.identity(for: host).names
    }

    @Test func directoryByName() throws {
        write("localhost", as: "a.example.com")
        write("rsa", as: "z.example.com")
        write("wild", as: "m")
        folder.write([1], to: "README")
        let store = try CertificateStore(directory())
        #expect(store.certificateCount == 3)
        for (host, expected) in [
            ("a.example.com", "localhost"), ("z.example.com", "rsa.example.com"),
            ("b.example.com", "*.example.com"),
            ("unknown", "localhost"), ("rsa.example.com", "rsa.example.com"), ("localhost", "localhost"),
        ] { #expect(names(store, host).first == expected, "\(host)") }
    }

    @Test func aChangeCountsOnceItIsStable() throws {
        let locations = pair()
        let store = try CertificateStore(locations)
        #expect(store.reloadIfChanged(at: now) == [])
        folder.write(fixture("wild.pem"), to: "cert.pem")
        folder.write(fixture("wild.key"), to: "key.pem")
        #expect(store.reloadIfChanged(at: now + 2) == [] && names(store, "") == ["localhost"])
        let messages = store.reloadIfChanged(at: now + 4)
        #expect(messages.map(\.level) == [.notice] && names(store, "").first == "*.example.com")
        #expect(store.reloadIfChanged(at: now + 6) == [])
    }

    /// One file that keeps changing delays itself only: not certificates, and not the issuers of clients.
    @Test(arguments: ["certificate", "issuers"])
    func aFileThatKeepsChangingDelaysNoOther(restless: String) throws {
        write("localhost", as: "a")
        write("rsa", as: "b")
        folder.write(fixture("issuer.pem"), to: "ca.pem")
        var locations = directory()
        locations.clientIssuers = folder.path + "/ca.pem"
        let store = try CertificateStore(locations)
        func change() {
            if restless == "issuers" {
                folder.write(fixture("stranger.pem"), to: "ca.pem")
            } else {
                write("rsa4096", as: "b")
            }
        }
        write("wild", as: "a")
        change()
        #expect(store.reloadIfChanged(at: now) == [])
        change()
        #expect(store.reloadIfChanged(at: now + 2).map(\.level) == [.notice])
        #expect(names(store, "a").first == "*.example.com" && names(store, "b").first == "rsa.example.com")
        #expect(try isAdministrator(of: store) == true)
        // Once it rests, it counts.
        #expect(store.reloadIfChanged(at: now + 4).first?.level == .notice)
        if restless == "issuers" {
            #expect(try isAdministrator(of: store) == nil)
        } else {
            #expect(names(store, "b").first == "rsa4096.example.com")
        }
        #expect(store.reloadIfChanged(at: now + 6) == [])
    }

    /// A directory that is made again, slowly: no certificate counts as removed while files are copied.
    @Test func filesThatAreNotCopiedYetAreNotRemoved() throws {
        write("localhost", as: "a")
        write("rsa", as: "b")
        write("wild", as: "c")
        let store = try CertificateStore(directory())
        for name in ["a", "b", "c"] {
            folder.delete(name + "/fullchain.pem")
            folder.delete(name + "/privkey.pem")
        }
        _ = store.reloadIfChanged(at: now)
        #expect(store.reloadIfChanged(at: now + 2).last?.level == .error, "no file is left")
        #expect(store.certificateCount == 3)
        write("localhost", as: "a")
        _ = store.reloadIfChanged(at: now + 4)
        write("rsa4096", as: "b")
        _ = store.reloadIfChanged(at: now + 6)
        #expect(store.certificateCount == 3)
        #expect(names(store, "c").first == "*.example.com", "its files are still to come")
        // Nothing more comes: c is removed.
        _ = store.reloadIfChanged(at: now + 8)
        #expect(store.certificateCount == 2)
        #expect(names(store, "b").first == "rsa4096.example.com")
        #expect(store.reloadIfChanged(at: now + 10) == [])
    }

    /// Of the year 2030, with `later.pem`.
    private static let (beforeLater, duringLater, afterLater): (Int64, Int64, Int64) = (
        1_893_456_000 - 7200, 1_893_456_000, 1_924_992_000
    )

    /// A certificate that is valid is not replaced by one that is not.
    @Test func aNewCertificateThatIsNotValidKeepsTheOldOne() throws {
        write("localhost", as: "a")
        let store = try CertificateStore(directory())
        write("later", as: "a")
        for (time, reason) in [
            (Self.beforeLater, "is not valid yet, but in 2 hours"), (Self.afterLater, "has expired"),
        ] {
            let messages = store.reload(at: time)
            #expect(messages.map(\.level) == [.error] && messages[0].text.contains(reason), "\(messages)")
            #expect(names(store, "a") == ["localhost"])
        }
        // One that was put there too early is used when its time begins.
        #expect(store.reload(at: Self.beforeLater).map(\.level) == [.error])
        #expect(store.reloadIfChanged(at: Self.duringLater - 1) == [] && names(store, "a") == ["localhost"])
        #expect(store.reloadIfChanged(at: Self.duringLater).map(\.level) == [.notice])
        #expect(names(store, "a") == ["later.example.com"])
        #expect(store.reloadIfChanged(at: Self.duringLater + 2) == [])
        // Both are of no use: the new one counts, with a warning.
        write("localhost", as: "a")
        let messages = store.reload(at: 200 * 365 * 86_400)
        #expect(messages.map(\.level) == [.notice, .warning] && names(store, "a") == ["localhost"])
    }

    @Test func aCertificateWithoutAFormerOneIsUsedAtAnyTime() throws {
        write("later", as: "a")
        let store = try CertificateStore(directory())
        for (time, reason) in [
            (Self.beforeLater, "is not valid yet, but in 2 hours"), (Self.afterLater, "has expired"),
        ] {
            let messages = store.warnings(at: time)
            #expect(messages.map(\.level) == [.warning] && messages[0].text.contains(reason), "\(messages)")
        }
        #expect(store.warnings(at: Self.duringLater) == [])
    }

    @Test func aBadNewFileKeepsTheOldOne() throws {
        let store = try CertificateStore(pair())
        for (name, bytes) in [
            ("key.pem", fixture("wild.key")), ("key.pem", []), ("cert.pem", Array("nonsense".utf8)),
        ] {
            folder.write(bytes, to: name)
            _ = store.reloadIfChanged(at: now)
            let messages = store.reloadIfChanged(at: now)
            #expect(messages.map(\.level) == [.error] && names(store, "") == ["localhost"])
            #expect(store.reloadIfChanged(at: now) == [], "it is said once")
            #expect(store.reload(at: now).map(\.level) == [.error], "and again when it is asked for")
        }
        folder.delete("cert.pem")
        #expect(store.reload(at: now).map(\.level) == [.error] && names(store, "") == ["localhost"])
        folder.write(fixture("rsa.pem"), to: "cert.pem")
        folder.write(fixture("rsa.key"), to: "key.pem")
        #expect(
            store.reload(at: now).map(\.level) == [.notice] && names(store, "").first == "rsa.example.com")
    }

    @Test func namesComeAndGo() throws {
        write("localhost", as: "one")
        let store = try CertificateStore(directory())
        write("wild", as: "two")
        #expect(
            store.reload(at: now).map(\.level) == [.notice] && names(store, "two").first == "*.example.com")
        folder.delete("one/fullchain.pem")
        folder.delete("one/privkey.pem")
        #expect(
            store.reload(at: now).map(\.level) == [.notice] && names(store, "one").first == "*.example.com")
        folder.delete("two/fullchain.pem")
        folder.delete("two/privkey.pem")
        #expect(store.reload(at: now).last?.level == .error, "the last one stays")
        #expect(names(store, "two").first == "*.example.com")
        #expect(names(store, "one").first == "*.example.com")
    }

    /// The I/O threads ask for the context while another thread reads thousands of files.
    @Test func contextIsTheFormerOneUntilAllIsRead() throws {
        write("localhost", as: "a")
        write("rsa", as: "b")
        let store = try CertificateStore(directory())
        write("wild", as: "a")
        var seen: [[String]] = []
        let messages = store.reload(
            at: now,
            while: {
                seen.append(names(store, "a"))
                #expect(store.certificateCount == 2 && store.earliestExpirySeconds > now)
                return true
            })
        #expect(messages.map(\.level) == [.notice])
        #expect(seen == [["localhost"], ["localhost"]], "asked before each certificate")
        #expect(names(store, "a").first == "*.example.com")
    }

    @Test func reloadThatIsGivenUpChangesNothingAndIsMadeUpFor() throws {
        write("localhost", as: "a")
        let store = try CertificateStore(directory())
        write("wild", as: "a")
        let givenUp = store.reload(at: now, while: { false })
        #expect(givenUp == [] && names(store, "a") == ["localhost"])
        _ = store.reloadIfChanged(at: now)
        let messages = store.reloadIfChanged(at: now)
        #expect(messages.map(\.level) == [.notice] && names(store, "a").first == "*.example.com")
    }

    @Test func filesThatAreTheSameKeepTheirIdentity() throws {
        write("localhost", as: "a")
        let store = try CertificateStore(directory())
        let identity = store.context.identity(for: "a")
        write("localhost", as: "a")
        #expect(store.reload(at: now) == [])
        #expect(store.context.identity(for: "a") === identity)
    }

    @Test func problemsAtTheStart() throws {
        var locations = directory()
        #expect(throws: CertificateStore.Problems.self) { try CertificateStore(locations) }
        write("localhost", as: "one")
        folder.delete("one/privkey.pem")
        write("wild", as: "two")
        folder.write(fixture("rsa.key"), to: "two/privkey.pem")
        let error = #expect(throws: CertificateStore.Problems.self) { try CertificateStore(locations) }
        #expect(error?.texts.count == 2, "all problems at once")
        locations = pair()
        locations.clientIssuers = folder.path + "/missing.pem"
        #expect(throws: CertificateStore.Problems.self) { try CertificateStore(locations) }
        locations.key = nil
        #expect(locations.problems.count == 1)
        locations = CertificateLocations()
        locations.clientIssuers = "x"
        #expect(locations.problems.count == 1)
    }

    @Test func warnings() throws {
        let locations = pair()
        #expect(try CertificateStore(locations).warnings(at: now) == [])
        folder.write(fixture("localhost.key"), to: "key.pem", mode: 0o644)
        _ = unsafe chmod(folder.path + "/key.pem", 0o644)
        let store = try CertificateStore(locations)
        #expect(store.warnings(at: now).map(\.level) == [.warning])
        #expect(store.warnings(at: now + 200 * 365 * 86_400).count == 2, "the certificate has expired")
    }

    @Test(arguments: [("rsa", []), ("rsa4096", [.notice])] as [(String, [CertificateStore.Message.Level])])
    func largeKeysAreMentionedOnce(name: String, levels: [CertificateStore.Message.Level]) throws {
        write(name, as: "a")
        let store = try CertificateStore(directory())
        #expect(store.warnings(at: now).map(\.level) == levels)
        _ = store.reloadIfChanged(at: now)
        #expect(store.reloadIfChanged(at: now + 86_400) == [], "a day later")
    }

    /// A certificate that nobody renews ages while the server runs.
    @Test func warningsAreRepeatedEachDay() throws {
        let store = try CertificateStore(pair())
        let expiry = store.earliestExpirySeconds
        #expect(expiry > now)
        let start = expiry - 8 * 86_400
        #expect(store.reloadIfChanged(at: start) == [])
        #expect(store.reloadIfChanged(at: start + 86_399) == [])
        #expect(store.reloadIfChanged(at: start + 86_400) == [], "more than a week")
        let messages = store.reloadIfChanged(at: start + 2 * 86_400)
        #expect(messages.map(\.level) == [.warning])
        #expect(messages.first?.text.contains("expires in 144 hours") == true)
        #expect(store.reloadIfChanged(at: start + 2 * 86_400 + 2) == [], "it is said once a day")
        #expect(store.reloadIfChanged(at: start + 3 * 86_400).map(\.level) == [.warning])
    }

    /// A directory has at most 10 000 names, and what is left out is said.
    @Test func namesBeyondTheLimit() throws {
        write("localhost", as: "a")
        for number in 0..<10_000 { folder.write([], to: "b\(number)") }
        let store = try CertificateStore(directory())
        let warnings = store.warnings(at: now)
        #expect(warnings.map(\.level) == [.warning])
        #expect(warnings.first?.text.contains("the last 1 in the order of names") == true)
        folder.write([], to: "c")
        #expect(store.reload(at: now).first?.text.contains("the last 2 ") == true)
        folder.delete("c")
        folder.delete("b0")
        #expect(store.reload(at: now) == [])
        #expect(store.warnings(at: now) == [])
    }

    @Test func theFirstCertificateThatEndsCounts() throws {
        write("localhost", as: "a")
        write("rsa", as: "b")
        let all = try CertificateStore(directory())
        let alone = try CertificateStore(pair())
        #expect(all.earliestExpirySeconds <= alone.earliestExpirySeconds && all.earliestExpirySeconds > now)
    }

    /// A certificate keeps the former issuers in no case: not where its files are gone, bad, or can't be
    /// looked for.
    @Test(arguments: ["directory", "files", "bad key", "none"])
    func issuerThatIsRemovedIsAcceptedNowhere(missing: String) throws {
        let directory = Folder()
        for (name, ending) in [("pem", "fullchain.pem"), ("key", "privkey.pem")] {
            directory.write(fixture("localhost." + name), to: "localhost/" + ending)
        }
        folder.write(fixture("issuer.pem"), to: "ca.pem")
        var locations = CertificateLocations()
        locations.directory = directory.path
        locations.clientIssuers = folder.path + "/ca.pem"
        let store = try CertificateStore(locations)
        #expect(try isAdministrator(of: store) == true)
        folder.write(fixture("stranger.pem"), to: "ca.pem")
        let away = directory.path + "-away"
        switch missing {
        case "directory": _ = unsafe rename(directory.path, away)
        case "files":
            directory.delete("localhost/fullchain.pem")
            directory.delete("localhost/privkey.pem")
        case "bad key": directory.write(fixture("rsa.key"), to: "localhost/privkey.pem")
        default: break
        }
        defer { _ = unsafe rename(away, directory.path) }
        let messages = store.reload(at: now)
        #expect(messages.contains { $0.text.contains("issuers of administrators' certificates were read") })
        #expect(try isAdministrator(of: store) == nil, "refused: the issuer is unknown now")
    }

    @Test func theClientsIssuersChange() throws {
        var locations = pair()
        folder.write(fixture("issuer.pem"), to: "ca.pem")
        locations.clientIssuers = folder.path + "/ca.pem"
        let store = try CertificateStore(locations)
        #expect(try isAdministrator(of: store) == true)
        folder.write(fixture("stranger.pem"), to: "ca.pem")
        #expect(store.reload(at: now).map(\.level) == [.notice])
        #expect(try isAdministrator(of: store) == nil, "refused: the issuer is unknown now")
        folder.write([], to: "ca.pem")
        #expect(store.reload(at: now).map(\.level) == [.error])
    }
}
