import PandoBytes

/// What was hashed of large objects, page by page: the text `":" key ":" hash …` of the children of each page
/// of a ``Children``. A write replaces the pages between the root and what it changes, so the next hash of
/// the object finds all other pages here, and costs the children of one page and SHA-1 over the texts.
///
/// A page that is kept here is not changed in place, and no other page can have its address: a writer copies
/// it, as for any snapshot.
///
///     recent   pages that were noted, or found in `former`, since the last exchange
///     former   what `recent` was at the last exchange, without the pages that were found since
///
/// An exchange drops `former` and puts `recent` in its place, when the noted bytes or the texts in `recent`
/// are above half of the limit. So pages that no snapshot has any more are dropped after two exchanges.
package struct HashedPages {
    struct Page {
        /// Keeps the page as it is.
        let entries: ContiguousArray<Children.Entry>
        let text: [UInt8]
        /// Whether some child has a priority: then the object's children are not hashed in this order.
        let hasPriorities: Bool
    }

    private var recent: [UInt: Page] = [:]
    private var former: [UInt: Page] = [:]
    /// Bytes of texts and of data that were noted since the last exchange, about.
    private var notedByteCount = 0
    /// Bytes of the texts in `recent`.
    private var textByteCount = 0
    /// The most that ``notedByteCount``, and that ``textByteCount``, may be before an exchange.
    private let byteLimit: Int

    /// - Parameter byteLimit: Bytes that texts, and pages that were replaced since, may take, about.
    package init(byteLimit: Int) { self.byteLimit = max(1, byteLimit / 2) }

    /// Pages that are kept.
    package var count: Int { recent.count + former.count }

    /// What is known of a page. O(1).
    mutating func page(of entries: ContiguousArray<Children.Entry>) -> Page? {
        let address = Self.address(of: entries)
        if let page = recent[address] { return page }
        guard let page = former.removeValue(forKey: address) else { return nil }
        keep(page, at: address)
        return page
    }

    /// Notes the text of a page.
    /// - Parameter dataByteCount: Bytes that the page and the nodes below it take, about.
    mutating func note(_ page: Page, dataByteCount: Int) {
        notedByteCount += page.text.count + dataByteCount
        keep(page, at: Self.address(of: page.entries))
    }

    private mutating func keep(_ page: Page, at address: UInt) {
        if notedByteCount > byteLimit || textByteCount > byteLimit {
            former = recent
            recent = [:]
            (notedByteCount, textByteCount) = (0, 0)
        }
        if recent.updateValue(page, forKey: address) == nil { textByteCount += page.text.count }
    }

    private static func address(of entries: ContiguousArray<Children.Entry>) -> UInt {
        unsafe entries.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    }
}
