import Dispatch
import PandoFuzzTargets
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// libFuzzer over one ``FuzzTarget``: `PANDO_FUZZ_TARGET=json pando-fuzz CORPUS
/// -max_total_time=60`. Built only where `PANDO_FUZZ` is set (`Package.swift`).
@main struct Fuzzer {
    static func main() {
        let name = unsafe getenv("PANDO_FUZZ_TARGET").map { unsafe String(cString: $0) }
        guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
            let names = FuzzTarget.all.map(\.name).joined(separator: ", ")
            fatalError("PANDO_FUZZ_TARGET must be one of \(names)")
        }
        chosen.withLock { $0 = target }
        var count = CommandLine.argc
        var arguments = unsafe CommandLine.unsafeArgv
        let status = unsafe fuzzerRunDriver(&count, &arguments) { bytes, count in
            unsafe Fuzzer.check(Array(UnsafeRawBufferPointer(start: bytes, count: count)))
            return 0
        }
        exit(status)
    }

    private static let chosen = Mutex<FuzzTarget?>(nil)

    /// A failure ends the process, as a trap does: libFuzzer keeps the input.
    private static func check(_ input: [UInt8]) {
        switch chosen.withLock({ $0 })?.check {
        case .direct(let check):
            do { try check(input) } catch { fatalError("\(error)") }
        case .awaited(let check):
            let isDone = DispatchSemaphore(value: 0)
            Task.detached {
                do { try await check(input) } catch { fatalError("\(error)") }
                isDone.signal()
            }
            isDone.wait()
        case nil: break
        }
    }
}

private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32

/// libFuzzer as a library (https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library). For these
/// parameters Swift's calling convention is that of C.
@_silgen_name("LLVMFuzzerRunDriver")
private func fuzzerRunDriver(
    _ argumentCount: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @escaping Callback
) -> Int32
