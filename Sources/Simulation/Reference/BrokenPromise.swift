/// A promise to clients that was broken, in words.
package struct BrokenPromise: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}
