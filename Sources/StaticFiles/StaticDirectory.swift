import Foundation
import PandoFiles

/// Reads the files of a directory for a ``StaticSite``. Links, and files whose names begin with a dot, are
/// left out, so nothing outside of the directory is served.
package enum StaticDirectory {
    /// Why a directory cannot be served.
    package struct Unusable: Error, CustomStringConvertible {
        package let description: String
    }

    /// Bounds of what is kept in memory.
    package static let fileLimit = 4096
    package static let fileByteLimit = 8 << 20
    package static let totalByteLimit = 64 << 20
    /// Folders within folders.
    package static let depthLimit = 16

    /// - Returns: The site, and the paths of files that are not served because their names belong to the
    ///   data.
    /// - Throws: ``Unusable`` where a file cannot be read, or where there is more than the limits allow.
    /// - Complexity: O(bytes); reads from the disk.
    package static func read(_ directory: String) throws(Unusable) -> (site: StaticSite, ignored: [String]) {
        var reading = Reading(root: directory)
        try reading.readFolder("", depth: 0)
        return (StaticSite(reading.contents), reading.ignored.sorted())
    }

    /// The directory of the console that came with a program: `public` beside it, `share/pando/public` beside
    /// its `bin`, or `public` of the checkout in whose `.build` it lies. Nil where there is none.
    /// - Parameter program: The path of the program, without links.
    package static func besideProgram(_ program: String) -> String? {
        let folder = URL(fileURLWithPath: program).deletingLastPathComponent()
        let parent = folder.deletingLastPathComponent()
        var candidates = [
            folder.appendingPathComponent("public"), parent.appendingPathComponent("share/pando/public"),
        ]
        // CHECKOUT/.build/TRIPLE/release/pando
        let build = parent.deletingLastPathComponent()
        if build.lastPathComponent == ".build" {
            candidates.append(build.deletingLastPathComponent().appendingPathComponent("public"))
        }
        return candidates.map(\.path).first {
            FileManager.default.fileExists(atPath: "\($0)/index.html")
        }
    }

    private struct Reading {
        let root: String
        var contents: [String: [UInt8]] = [:]
        var ignored: [String] = []
        private var byteCount = 0

        init(root: String) { self.root = root }

        mutating func readFolder(_ path: String, depth: Int) throws(Unusable) {
            guard depth <= StaticDirectory.depthLimit else {
                throw Unusable(
                    description: "\(root)\(path): more than \(StaticDirectory.depthLimit) folders deep")
            }
            let names: [String]
            do {
                names = try FileManager.default.contentsOfDirectory(atPath: root + path)
            } catch {
                throw Unusable(description: "\(root)\(path) can't be read: \(error.fileReason)")
            }
            for name in names.sorted() where !name.hasPrefix(".") {
                let place = "\(path)/\(name)"
                // Does not follow links.
                let attributes = try? FileManager.default.attributesOfItem(atPath: root + place)
                switch attributes?[.type] as? FileAttributeType {
                case .typeDirectory: try readFolder(place, depth: depth + 1)
                case .typeRegular: try readFile(place)
                default: continue
                }
            }
        }

        private mutating func readFile(_ path: String) throws(Unusable) {
            guard StaticSite.isServed(path) else { return ignored.append(path) }
            let bytes: [UInt8]
            do {
                let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: root + path))
                defer { try? handle.close() }
                bytes = Array(try handle.read(upToCount: StaticDirectory.fileByteLimit + 1) ?? Data())
            } catch {
                throw Unusable(description: "\(root)\(path) can't be read: \(error.fileReason)")
            }
            byteCount += bytes.count
            guard bytes.count <= StaticDirectory.fileByteLimit, byteCount <= StaticDirectory.totalByteLimit,
                contents.count < StaticDirectory.fileLimit
            else {
                throw Unusable(
                    description:
                        "\(root)\(path): at most \(StaticDirectory.fileLimit) files of \(StaticDirectory.fileByteLimit >> 20) MiB each and \(StaticDirectory.totalByteLimit >> 20) MiB together are served"
                )
            }
            contents[path] = bytes
        }
    }
}
