import PandoBytes

/// A listen at one location, whole or through a query (realtime §4.2): as the client asks for it, and as the
/// engine executes it.
package struct Listen: Equatable, Sendable {
    /// The location.
    package var path: Path
    /// nil for a default listen. A listen with a tag has a query even if that loads all data: the client
    /// identifies it by its tag.
    package var query: Query?
    /// The client's number for the listen, positive. nil if and only if `query` is nil.
    package var tag: Int64?
    /// The simple hash of the data that the client has; `""` for none. nil from C++ clients, which must
    /// always be sent data.
    package var hash: Text?
    /// The compound hash of the data that the client has; nil when absent. It may be unusable: then the
    /// simple hash decides, and all data is sent if that differs.
    package var compoundHash: CompoundHash?

    package init(
        path: Path, query: Query? = nil, tag: Int64? = nil, hash: Text? = nil,
        compoundHash: CompoundHash? = nil
    ) {
        self.path = path
        self.query = query
        self.tag = tag
        self.hash = hash
        self.compoundHash = compoundHash
    }
}
