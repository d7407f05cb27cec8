import Foundation
import Logging
import PandoSettings
import PandoStaticFiles

// The files that are served beside the data: those of `--public`, or the console that came with the program.

extension Server {
    /// - Returns: Nil where no files are to be served, or where the console is not there.
    /// - Throws: ``StartError/files(_:)`` where the directory of `--public` cannot be served. A console that
    ///   is broken is no reason not to serve the data: then the log says so.
    static func loadSite(_ configuration: Configuration, _ logger: Logger) throws(StartError) -> StaticSite? {
        guard !configuration.hasNoConsole else { return nil }
        let isOwn = configuration.publicDirectory != nil
        guard let directory = configuration.publicDirectory ?? standardDirectory else {
            logger.info(
                "no console is served: there are no files for it, neither beside the program nor in share/pando/public"
            )
            return nil
        }
        do throws(StaticDirectory.Unusable) {
            let (site, ignored) = try StaticDirectory.read(directory)
            for path in ignored {
                logger.warning(
                    "\(directory)\(path) is not served: a path that ends in .json belongs to the database")
            }
            return site
        } catch {
            guard !isOwn else { throw .files("--public: \(error)") }
            logger.error("no console is served: \(error)")
            return nil
        }
    }

    /// Where the files of the console are; nil where the program came without them.
    private static var standardDirectory: String? {
        guard let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        else {
            return nil
        }
        return StaticDirectory.besideProgram(program)
    }
}
