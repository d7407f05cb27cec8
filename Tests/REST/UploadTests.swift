import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoREST

private let type = "Content-Type: multipart/form-data; boundary=b"
private let file = "Content-Disposition: form-data; name=\"f\"; filename=\"d.json\"\r\n"

/// What the request is to a server under `--dev`.
private func upload(_ method: String, _ target: String, _ fields: [String] = [type]) throws -> RESTRequest {
    let head = try head(method, target, fields)
    return try RESTRequest(head, RESTAddress(head), acceptsUploads: true)
}

/// rest §10: a POST of a file under `--dev` is a PUT.
@Suite struct UploadTests {
    @Test(
        arguments: [
            ("/.upload", ""), ("/a/b/.upload?ns=demo", "a/b"), ("/a//.upload", "a"), ("/%61/.upload", "a"),
        ])
    func pathsThatTakeFiles(target: String, path: String) throws {
        let request = try upload("POST", target)
        #expect(request.location == .data(Target(Path(trusted: path))))
        #expect(request.method == .put)
    }

    @Test(
        arguments: [
            ("POST", "/.settings/.upload", .invalidPath), ("POST", "/a%23/.upload", .invalidPath),
            ("PUT", "/a/.upload", .notREST), ("GET", "/a/.upload", .notREST), ("POST", "/a/upload", .notREST),
            ("POST", "/a.upload", .notREST), ("POST", "/a/.upload/", .notREST),
            ("POST", "/a/.upload.json", .invalidPath),
        ] as [(String, String, RESTError)])
    func otherPathsAreAsEver(method: String, target: String, error: RESTError) throws {
        #expect(throws: error) { try upload(method, target) }
        #expect(throws: RESTError.notREST, "only under --dev") { try request("POST", "/a/.upload", [type]) }
    }

    @Test(
        arguments: [
            // body                                                                      data          because
            ("--b\r\n\(file)\r\n{\"k\":1}\r\n--b--\r\n", #"{"k":1}"#, "a file"),
            ("--b\r\n\(file)Content-Type: application/json\r\n\r\n1\r\n--b--", "1", "with a type"),
            (
                "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--b\r\n\(file)\r\n2\r\n--b--",
                "2",
                "behind a field that is no file"
            ),
            ("--b\r\n\(file)\r\n1\r\n--b\r\n\(file)\r\n2\r\n--b--", "1", "the first of two files"),
            ("--b \t \r\n\(file)\r\n3\r\n--b  \r\n", "3", "spaces behind a delimiter (RFC 2046 §5.1.1)"),
            ("--b\r\n\r\n1\r\n--b\r\n\(file)\r\n2\r\n--b--", "2", "behind a part without lines"),
            ("for old readers\r\n--b\r\n\(file)\r\n1\r\n--b--\r\nand more", "1", "text around the parts"),
            ("--b\r\n\(file)\r\n\"x--b\"\r\n--b--", #""x--b""#, "a delimiter begins a line"),
            ("--b\r\n\(file)\r\n[1,\r\n2]\r\n--b--", #"{"0":1,"1":2}"#, "lines in the file"),
            (
                "--b\r\ncontent-disposition:FORM-DATA; FILENAME*=UTF-8''%61\r\n\r\n1\r\n--b--", "1",
                "in any case, a name that is encoded"
            ),
        ] as [(String, String, String)])
    func fileIsTheValue(body: String, data: String, because: String) throws {
        let request = try upload("POST", "/a/.upload")
        guard case .value(let draft) = try request.readBody(Array(body.utf8).rawSpan) else {
            Issue.record("no value")
            return
        }
        let expected = try node(data)
        #expect(draft.node == expected, "\(because)")
    }

    @Test(
        arguments: [
            // body                                                        error            because
            ("", .malformedUpload, "nothing"),
            (#"{"k":1}"#, .malformedUpload, "no form"),
            ("--b\r\n\(file)\r\n1", .malformedUpload, "no end"),
            ("--b\r\n\(file)1\r\n--b--", .malformedUpload, "no empty line"),
            ("--b\r\n\(file)", .malformedUpload, "it ends before the data"),
            ("--b--\r\n", .malformedUpload, "no part"),
            ("--b", .malformedUpload, "half of a part"),
            ("\r\n--b", .malformedUpload, "half of a part behind a line"),
            ("--c\r\n\(file)\r\n1\r\n--c--", .malformedUpload, "another boundary"),
            (
                "--b\r\nContent-Disposition: form-data; name=\"filename=\"\r\n\r\n1\r\n--b--",
                .malformedUpload, "no file"
            ),
            (
                "--b\r\nX: \(String(repeating: "x", count: 5000))\r\n\(file)\r\n1\r\n--b--", .malformedUpload,
                "long lines"
            ),
            (
                String(repeating: "--b\r\n\r\n1\r\n", count: 16) + "--b\r\n\(file)\r\n1\r\n--b--",
                .malformedUpload,
                "many parts"
            ),
            ("--b\r\n\(file)\r\n\r\n--b--", .noData, "an empty file"),
            ("--b\r\n\(file)\r\n{bad\r\n--b--", .malformedData, "no JSON"),
            ("--b\r\n\(file)\r\n{\"a.b\":1}\r\n--b--", .malformedData, "an illegal key"),
        ] as [(String, RESTError, String)])
    func bodiesThatAreRefused(body: String, error: RESTError, because: String) throws {
        let request = try upload("POST", "/a/.upload")
        #expect(throws: error, "\(because)") { try request.readBody(Array(body.utf8).rawSpan) }
    }

    @Test(
        arguments: [
            ("multipart/form-data; boundary=b", true), (#"Multipart/Form-Data;  Boundary="b""#, true),
            ("multipart/form-data; charset=utf-8; boundary=b", true), ("multipart/form-data", false),
            ("multipart/form-data; boundary=", false), ("multipart/mixed; boundary=b", false),
            ("multipart/form-data; boundary=\(String(repeating: "b", count: 71))", false),
            ("application/json", false),
            ("", false),
        ])
    func typesOfForms(type: String, isForm: Bool) throws {
        let request = try upload("POST", "/a/.upload", type.isEmpty ? [] : ["Content-Type: \(type)"])
        let body = Array("--b\r\n\(file)\r\n1\r\n--b--".utf8)
        if isForm {
            #expect(try request.readBody(body.rawSpan) == .value(Draft(.integer(1))))
        } else {
            #expect(throws: RESTError.malformedUpload) { try request.readBody(body.rawSpan) }
        }
    }

    @Test func limitIsThatOfTheBody() throws {
        let request = try upload("POST", "/a/.upload")
        let body = Array("--b\r\n\(file)\r\n1\r\n--b--".utf8)
        #expect(throws: RESTError.writeTooLarge) {
            try request.readBody(body.rawSpan, byteLimit: body.count - 1)
        }
    }

    /// Damaged bodies are refused, or read; what is read is part of the body.
    @Test(arguments: 0..<4) func damagedBodies(seed: Int) throws {
        var random = SeededGenerator(seed: seed)
        let request = try upload("POST", "/a/.upload")
        let pieces = ["--b", "\r\n", "\r", "\n", "--", file, "1", "{}", "X: y", ";", "é"].map {
            Array($0.utf8)
        }
        var readCount = 0
        for _ in 0..<5000 {
            var body: [UInt8] = []
            if Bool.random(using: &random) { body = Array("--b\r\n\(file)\r\n1\r\n--b--".utf8) }
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                let place = Int.random(in: 0...body.count, using: &random)
                body.insert(contentsOf: pieces.randomElement(using: &random)!, at: place)
            }
            do throws(RESTError) {
                _ = try request.readBody(body.rawSpan)
                readCount += 1
            } catch {
                #expect(error.status == .badRequest)
            }
        }
        #expect(readCount > 100)
    }
}
