import Synchronization

/// The site that all loops serve, which may be replaced while they do.
package final class StaticSiteHolder: Sendable {
    private let value: Mutex<StaticSite?>

    /// - Parameter site: Nil serves no files.
    package init(_ site: StaticSite? = nil) { value = Mutex(site) }

    /// Any thread. O(1).
    package var site: StaticSite? {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}
