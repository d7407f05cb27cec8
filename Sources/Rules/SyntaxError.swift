/// An error after which nothing more can be read.
struct SyntaxError: Error {
    var text: String
    var offset: Int

    init(_ text: String, at offset: Int) {
        self.text = text
        self.offset = offset
    }
}
