import Dispatch
import PandoFuzzTargets
import Synchronization

/// libFuzzer over one ``FuzzTarget``: `PANDO_FUZZ_TARGET=json pando-fuzz CORPUS -max_total_time=60`. Built only where
/// `PANDO_FUZZ` is set (`Package.swift`).
@main struct Fuzzer {
    static func main() {
        guard let name = environment("PANDO_FUZZ_TARGET"),
            let target = FuzzTarget.all.first(where: { $0.name == name })
        else {
            let names = FuzzTarget.all.map(\.name).joined(separator: ", ")
            fatalError("PANDO_FUZZ_TARGET must be one of \(names)")
        }
        chosen.withLock { $0 = target }
        var count = CommandLine.argc
        var arguments = unsafe CommandLine.unsafeArgv
        let status = unsafe fuzzerRunDriver(&count, &arguments) { bytes, count in
            unsafe check(Array(UnsafeRawBufferPointer(start: bytes, count: count)))
            return 0
        }
        exit(status)
    }

    private static func check(_ input: [UInt8]) {
        guard let target = chosen.withLock({ $0 }) else { return }
        let isDone = DispatchSemaphore(value: 0)
        Task.detached {
            do {
                try await target.run(input)
            } catch {
                fatalError("\(error)")
            }
            isDone.signal()
        }
        isDone.wait()
    }

    private static let chosen = Mutex<FuzzTarget?>(nil)
}

#if canImport(Glibc)
    import Glibc
#endif

private func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
}

private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32

/// libFuzzer as a library (https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library).
@_silgen_name("LLVMFuzzerRunDriver")
private func fuzzerRunDriver(
    _ argumentCount: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ callback: @escaping Callback
) -> Int32
