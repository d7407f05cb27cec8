import Foundation
import PandoEngine
import PandoFiles
import PandoRules
import PandoStorage

/// The rules that `--rules` gives: those of `default` in one file, or a directory with a NAMESPACE.json for
/// each.
///
/// They rule over stored ones and cannot be replaced over the network; SIGHUP reads them again. A file that
/// is bad never replaces a good one.
package struct RulesFiles: Sendable {
    /// By the name of the namespace.
    package private(set) var rulesets: [String: Ruleset] = [:]
    /// All that is wrong, with the file, and the line and column where there is one.
    package private(set) var problems: [String] = []

    /// Reads the file, or every `*.json` of the directory. O(bytes); a file is looked at only up to the limit
    /// of a rules document.
    /// - Parameter old: What was read before: where a file is bad now, its predecessor stays.
    package init(at path: String, replacing old: [String: Ruleset] = [:]) {
        let place = URL(fileURLWithPath: path).resolvingSymlinksInPath()
        guard (try? place.resourceValues(forKeys: [.isDirectoryKey]).isDirectory) == true else {
            read(path, for: NamespaceName.standard, old)
            // While the directory is missing, all rules stay as they are.
            if !problems.isEmpty { rulesets = old }
            return
        }
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: place.path) else {
            problems.append("\(path): can't be read")
            rulesets = old
            return
        }
        for file in names.sorted() where file.hasSuffix(Self.suffix) && !file.hasPrefix(".") {
            let name = String(file.dropLast(Self.suffix.count))
            guard NamespaceName.canonical(name) == name else {
                problems.append("\(path)/\(file): \"\(name)\" is not a valid namespace name")
                continue
            }
            read("\(path)/\(file)", for: name, old)
        }
        // To lose a file is no way to say who gets in.
        for name in old.keys.sorted() where rulesets[name] == nil {
            problems.append("\(path)/\(name).json was removed: its rules stay until the next start")
            rulesets[name] = old[name]
        }
    }

    private static let suffix = ".json"

    private mutating func read(_ file: String, for namespace: String, _ old: [String: Ruleset]) {
        rulesets[namespace] = old[namespace]
        let content: [UInt8]
        do throws(Unreadable) { content = try Self.content(of: file) } catch {
            problems.append("\(file): can't be read: \(error.reason)")
            return
        }
        do throws(InvalidRules) { rulesets[namespace] = try Ruleset(loading: content) } catch {
            problems += error.problems.map { "\(file):\($0)" }
        }
    }

    private struct Unreadable: Error {
        var reason: String
    }

    /// One byte more than a document may have, so that a larger one is recognised.
    private static func content(of file: String) throws(Unreadable) -> [UInt8] {
        do {
            let url = URL(fileURLWithPath: file).resolvingSymlinksInPath()
            // Not a pipe, which might never end.
            guard try url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true else {
                throw Unreadable(reason: "it is not a file")
            }
            let handle = try FileHandle(forReadingFrom: url)
            defer { try? handle.close() }
            return Array(try handle.read(upToCount: RulesLimits.sourceByteCount + 1) ?? Data())
        } catch let error as Unreadable {
            throw error
        } catch {
            throw Unreadable(reason: error.fileReason)
        }
    }
}
