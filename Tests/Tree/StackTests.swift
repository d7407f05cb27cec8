import Glibc
import PandoBytes
import PandoTree
import Testing

/// The depth of the sender's JSON must not determine the depth of the stack.
@Suite struct SmallStacks {
    @Test func deepJSONOnASmallStack() throws {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        #expect(unsafe pthread_attr_setstacksize(&attributes, 128 << 10) == 0)
        var thread = pthread_t()
        let status = unsafe pthread_create(
            &thread, &attributes,
            { _ in
                let object = String(repeating: #"{"a":["#, count: 512) + String(repeating: "]}", count: 512)
                let deep = Parsed(object)
                let deeper = Parsed(String(repeating: "[", count: 1_000_000))
                let skipped = skips(Array(object.utf8))
                // A number stored as a pointer, which is never followed.
                return unsafe UnsafeMutableRawPointer(
                    bitPattern: deep == .data("null") && deeper == .tooDeep && skipped ? 1 : 2)
            }, nil)
        #expect(status == 0)
        var result: UnsafeMutableRawPointer?
        unsafe pthread_join(thread, &result)
        let answer = UInt(bitPattern: result)
        #expect(answer == 1)
    }
}
