/// A payload with a good checksum that cannot be read: another version wrote it, or it is a bug.
package struct UnreadableRecord: Error, Equatable {
    package var reason: String

    package init(reason: String) {
        self.reason = reason
    }
}
