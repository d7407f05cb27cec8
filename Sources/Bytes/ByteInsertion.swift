/// Bytes that belong into a buffer, and are not copied there: to copy 200 MB takes half a second, most of it
/// for the memory that the copy is the first to touch.
package struct ByteInsertion: Sendable {
    /// Where they belong: the offset of the byte of the buffer that follows them.
    package let offset: Int
    package let bytes: [UInt8]

    /// - Parameter offset: At most the number of bytes that the buffer has.
    package init(_ bytes: consuming [UInt8], at offset: Int) {
        self.bytes = bytes
        self.offset = offset
    }
}
