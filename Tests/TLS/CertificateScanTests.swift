import Foundation
import Testing

@testable import PandoTLS

@Suite struct CertificateScanTests {
    /// A directory with these files, for the time of `body`.
    private func withFiles(_ names: [String], _ body: (String) throws -> Void) throws {
        let directory = NSTemporaryDirectory() + "pando-scan-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for name in names {
            let path = directory + "/" + name
            let parent = (path as NSString).deletingLastPathComponent
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            try "text".write(toFile: path, atomically: false, encoding: .utf8)
        }
        try body(directory)
    }

    @Test(
        arguments: [
            // files                                                               host names
            ([], []),
            (["a.example/fullchain.pem", "a.example/privkey.pem"], ["a.example"]),
            // A half is seen, so that it is reported.
            (["a.example/fullchain.pem"], ["a.example"]),
            (["a.example/privkey.pem"], ["a.example"]),
            (["b/fullchain.pem", "a/fullchain.pem"], ["a", "b"]),
            // Other files of Let's Encrypt, and hidden ones, are no certificates.
            (["README", "a/cert.pem", ".hidden/fullchain.pem"], []),
        ] as [([String], [String])])
    func namesOfTheDirectory(files: [String], expected: [String]) throws {
        try withFiles(files) { directory in
            var locations = CertificateLocations()
            locations.directory = directory
            let scan = CertificateScan(locations)
            #expect(scan.sources.map(\.name) == expected)
            #expect(scan.isComplete && scan.leftOutCount == 0)
        }
    }

    @Test func certificateOfTheOptionsComesFirst() throws {
        try withFiles(["a/fullchain.pem"]) { directory in
            var locations = CertificateLocations()
            (locations.directory, locations.certificate, locations.key) = (directory, "/z.pem", "/z.key")
            let scan = CertificateScan(locations)
            #expect(scan.sources.map(\.certificate) == ["/z.pem", directory + "/a/fullchain.pem"])
        }
    }

    /// Of each file, what two scans have seen counts.
    @Test func whatChangesBetweenTwoScansDoesNotCountYet() throws {
        try withFiles(["a/fullchain.pem", "b/fullchain.pem", "issuers.pem"]) { directory in
            var locations = CertificateLocations()
            (locations.directory, locations.clientIssuers) = (directory, directory + "/issuers.pem")
            func change(_ name: String) throws {
                let text = UUID().uuidString
                try text.write(toFile: directory + "/" + name, atomically: true, encoding: .utf8)
            }
            let seen = CertificateScan(locations)
            #expect(seen.settled(since: seen, otherwise: seen) == seen)
            try change("a/fullchain.pem")
            let first = CertificateScan(locations)
            #expect(first.settled(since: seen, otherwise: seen) == seen)
            try change("b/fullchain.pem")
            try change("issuers.pem")
            let second = CertificateScan(locations)
            #expect(second.settled(since: first, otherwise: seen) == first, "a alone")
            #expect(second.settled(since: second, otherwise: seen) == second)
            // A directory that is gone for one scan only.
            try FileManager.default.removeItem(atPath: directory)
            let gone = CertificateScan(locations)
            #expect(gone.settled(since: second, otherwise: second) == second)
            #expect(second.settled(since: gone, otherwise: second) == second)
            #expect(!gone.settled(since: gone, otherwise: second).isComplete)
        }
    }

    @Test func scansAreEqualUntilAFileChanges() throws {
        try withFiles(["a/fullchain.pem", "issuers.pem"]) { directory in
            var locations = CertificateLocations()
            (locations.directory, locations.clientIssuers) = (directory, directory + "/issuers.pem")
            let before = CertificateScan(locations)
            #expect(CertificateScan(locations) == before)
            try "other text".write(
                toFile: directory + "/issuers.pem", atomically: false, encoding: .utf8)
            let issuersChanged = CertificateScan(locations)
            #expect(issuersChanged != before && issuersChanged.stamps == before.stamps)
            try "other text".write(
                toFile: directory + "/a/fullchain.pem", atomically: false, encoding: .utf8)
            #expect(CertificateScan(locations).stamps != before.stamps)
            try FileManager.default.removeItem(atPath: directory)
            #expect(!CertificateScan(locations).isComplete)
        }
    }
}
