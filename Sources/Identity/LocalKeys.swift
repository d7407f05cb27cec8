import Foundation
import PandoBytes
import PandoFiles

/// The secrets, key files and revocations of the operator, loaded.
struct LocalKeys: Sendable {
    var secrets: [LoadedSecret] = []
    var files: [(issuer: Issuer, keys: KeySet)] = []
    var revokedBefore: [Text: Int64]

    var revocations: RevocationState {
        let keys = secrets.map(\.key) + files.flatMap(\.keys.keys)
        return RevocationState(fingerprints: Set(keys.map(\.fingerprint)), revokedBefore: revokedBefore)
    }

    /// The largest key file in bytes.
    private static let fileByteLimit = 1 << 20

    /// - Parameter problems: Every file and variable that cannot be read is appended, without its content.
    init(_ configuration: IdentityConfiguration, _ problems: inout [String]) async {
        revokedBefore = configuration.revokedBefore
        if let path = configuration.revocationFile, let bytes = await Self.read(path, &problems) {
            revokedBefore = Self.revocations(in: bytes, of: path, &problems)
        }
        for source in configuration.secrets {
            let name: String
            let written: [UInt8]
            switch source.place {
            case .file(let path):
                name = path
                guard let bytes = await Self.read(path, &problems) else { continue }
                written = bytes
            case .environment(let value, let variable):
                name = variable
                written = Array(value.utf8)
            }
            do {
                secrets.append(
                    try await Secret(written: written, encoding: source.encoding, id: source.id).loaded())
            } catch {
                problems.append("secret \(name): \(error)")
            }
        }
        for file in configuration.keyFiles {
            guard let bytes = await Self.read(file.path, &problems) else { continue }
            do throws(UnreadableKeys) {
                let isJSON = bytes.first { $0 > 0x20 } == UInt8(ascii: "{")
                let keys = isJSON ? try await KeySet(jwks: bytes) : try await KeySet(pem: bytes)
                files.append((file.issuer, keys))
            } catch {
                problems.append("key file \(file.path): \(error)")
            }
        }
    }

    private static func revocations(
        in bytes: [UInt8], of path: String, _ problems: inout [String]
    ) -> [Text: Int64] {
        guard let file = JSONObject(CommentedJSON.withoutComments(bytes)) else {
            problems.append("\(path): not a JSON object")
            return [:]
        }
        guard let auth = file.object("auth"), auth.contains("revoked_before") else { return [:] }
        var configuration = IdentityConfiguration()
        configuration.readRevocations(of: auth, &problems)
        return configuration.revokedBefore
    }

    /// Runs `body` on a thread that may block. The concurrency runtime has only one thread for each
    /// processor.
    private static func blocking<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: body()) }
        }
    }

    private static func read(_ path: String, _ problems: inout [String]) async -> [UInt8]? {
        switch await blocking({ contents(of: path) }) {
        case .success(let bytes): return bytes
        case .failure(let problem):
            problems.append(problem.description)
            return nil
        }
    }

    private static func contents(of path: String) -> Result<[UInt8], UnreadableKeys> {
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            let data = try handle.read(upToCount: fileByteLimit + 1) ?? Data()
            guard data.count <= fileByteLimit else {
                return .failure(UnreadableKeys(description: "\(path): larger than \(fileByteLimit) bytes"))
            }
            return .success(Array(data))
        } catch {
            return .failure(
                UnreadableKeys(description: "\(path): can't be read: \(error.fileReason)"))
        }
    }

    /// Modification times, sizes and inode numbers of the files, to detect changes.
    static func stamp(_ configuration: IdentityConfiguration) async -> [String] {
        let paths = configuration.files
        return await blocking { stamp(paths) }
    }

    private static func stamp(_ paths: [String]) -> [String] {
        return paths.map { path in
            let attributes = try? FileManager.default.attributesOfItem(
                atPath: URL(fileURLWithPath: path).resolvingSymlinksInPath().path)
            let time = (attributes?[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
            let size = (attributes?[.size] as? NSNumber)?.int64Value ?? -1
            let number = (attributes?[.systemFileNumber] as? NSNumber)?.int64Value ?? -1
            return "\(time) \(size) \(number)"
        }
    }
}

extension IdentityConfiguration {
    /// The files that are read again when they change.
    var files: [String] {
        var paths = keyFiles.map(\.path)
        for case .file(let path) in secrets.map(\.place) { paths.append(path) }
        if let revocationFile { paths.append(revocationFile) }
        return paths
    }
}
