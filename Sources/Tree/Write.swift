/// One write: a value, and what it sets. A write to several locations is an array of them.
package struct Write: Equatable, Sendable {
    /// The location, from the root of the database.
    package var target: Target
    /// The value, as the client sent it.
    package var draft: Draft

    package init(_ target: Target, _ draft: Draft) {
        self.target = target
        self.draft = draft
    }
}
