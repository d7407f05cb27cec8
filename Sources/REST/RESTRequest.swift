import PandoBytes
import PandoHTTP
import PandoTree

/// The part of a request that is read before its path: the database it is for (rest §1.2).
///
/// An unknown database is reported before a bad path (§9), so this comes first and cannot fail.
package struct RESTAddress: Sendable {
    /// `ns=`; nil when it is absent or empty. Then the host (``RequestHead/authority``) or the default names
    /// the database.
    package let namespace: Text?
    /// `OPTIONS`: a browser's preflight. It gets a response at once, with any path and any database.
    package let isPreflight: Bool
    /// Those that are not `ns`: mostly none.
    let parameters: QueryString

    /// O(bytes of the query string).
    package init(_ head: RequestHead) {
        let all = head.query(plusIsSpace: true)
        namespace = all["ns"].flatMap { $0.isEmpty ? nil : $0 }
        parameters = QueryString(all.pairs.filter { $0.name != "ns" })
        isPreflight = head.method == .options
    }
}

/// Printing does not print the parameters, which may contain a credential.
extension RESTAddress: CustomStringConvertible, CustomReflectable {
    package var description: String { "RESTAddress(\(namespace?.string ?? ""))" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A request's head, parsed (rest §1, §2, §4, §7). Its credential is not verified here, and neither rules nor
/// data are read.
///
/// A class, because it is passed through several threads and functions: one reference is counted instead of
/// all of its parts.
package final class RESTRequest: Sendable {
    /// After `X-HTTP-Method-Override` (§1.4).
    package let method: RESTMethod
    package let location: RESTLocation
    package let address: RESTAddress
    package let credential: RESTCredential
    /// Only for administrators.
    package let authVariableOverride: AuthVariableOverride?

    // Reads. With other methods these are not read.

    /// The query; nil for the whole node. Also set for `shallow` with `limitToFirst` or `startAfter`.
    package let query: Query?
    /// The index that the query needs, spelled as in `.indexOn`; nil when it needs none (§5.1).
    package let indexName: String?
    /// The page of the query that `cursor=` asks for; nil without it (§5.5).
    package let page: RequestedPage?
    package let isShallow: Bool
    package let timeout: Duration
    /// `Accept: text/event-stream` (§8).
    package let wantsStream: Bool
    /// `format=strict`, of the rules: without comments (§10).
    package let isStrict: Bool

    // Writes.

    /// `POST /<path>/.upload` under `--dev`: a PUT of the file in its body (§10).
    let isUpload: Bool
    /// What that body is; nil for none that has a file.
    let uploadForm: UploadForm?
    package let writeSizeLimit: WriteSizeLimit?
    package let disablesTriggers: Bool
    package let isDryRun: Bool

    // Conditions (§7); see ``checkConditions()``.

    /// `X-Firebase-ETag: true`.
    package let asksForETag: Bool
    package let ifMatch: Text?
    package let ifNoneMatch: Text?
    /// Whether a successful response has the tag of the data: because of `X-Firebase-ETag` or of a condition
    /// (§7). Not with a query, whose result is not the data that the tag is of.
    package let returnsETag: Bool
    /// Whether ``query`` is not nil. Stored, since the query is large.
    package let isFiltered: Bool
    /// Whether there is a query parameter, also where it is not read.
    private let hasQueryParameters: Bool
    private let hasShallow: Bool

    /// The form of the response.
    package let form: ResponseForm

    /// Reads a head in the order of §9: path, method, parameters. ``checkConditions()`` and
    /// ``readBody(_:byteLimit:)`` follow.
    /// - Parameter acceptsUploads: Whether files may be uploaded (`--dev`).
    /// - Throws: ``RESTError``, 400, 404 or 405.
    /// - Complexity: O(bytes of the head).
    package init(
        _ head: RequestHead, _ address: RESTAddress, acceptsUploads: Bool = false
    ) throws(RESTError) {
        self.address = address
        let parameters = address.parameters
        if acceptsUploads, head.method == .post, let place = try RESTLocation(uploadPath: head.pathBytes) {
            (isUpload, location, method) = (true, place, .put)
            uploadForm = UploadForm(contentType: head.header("content-type") ?? "")
        } else {
            (isUpload, uploadForm) = (false, nil)
            location = try RESTLocation(path: head.pathBytes)
            method = try RESTMethod(head, parameters, location)
        }
        let isRead = method.isRead

        credential = RESTCredential(head.fields, parameters)
        if let text = parameters["auth_variable_override"] {
            authVariableOverride = try AuthVariableOverride(text)
        } else {
            authVariableOverride = nil
        }

        hasShallow = parameters["shallow"] == "true"
        isShallow = isRead && hasShallow
        wantsStream = method == .get && head.accepts(mediaType: "text/event-stream")
        hasQueryParameters =
            !parameters.pairs.isEmpty && Filter.parameterNames.contains(where: parameters.contains)
        var filter: Filter?
        if isRead, hasQueryParameters || hasShallow {
            filter = hasShallow ? try Filter(shallow: parameters) : try Filter(parameters)
        }
        query = filter?.query
        isFiltered = filter?.query != nil
        indexName = filter?.indexName
        page = filter?.page
        if page != nil, wantsStream { throw .cursorStream }
        if isShallow, wantsStream { throw .shallowStream }
        if wantsStream, case .data(let target) = location, target.isPriority { throw .priorityStream }

        timeout = isRead ? try parseTimeout(parameters["timeout"]) : RESTLimits.timeout
        isStrict = parameters["format"] == "strict"
        writeSizeLimit = method.isWrite ? try WriteSizeLimit(parameters["writeSizeLimit"]) : nil
        disablesTriggers = parameters["disableTriggers"] == "true"
        isDryRun = parameters["dryRun"] == "true"
        form = try ResponseForm(head, parameters, method)

        asksForETag = head.header("x-firebase-etag")?.asciiString?.lowercased() == "true"
        ifMatch = try Self.single("if-match", .ifMatch, head)
        ifNoneMatch = try Self.single("if-none-match", .ifNoneMatch, head)
        returnsETag = !isFiltered && !isShallow && (asksForETag || ifMatch != nil || ifNoneMatch != nil)
    }

    /// As ``init(_:_:acceptsUploads:)``, where the address was not needed before.
    /// - Throws: ``RESTError``, 400, 404 or 405.
    package convenience init(_ head: RequestHead) throws(RESTError) {
        try self.init(head, RESTAddress(head))
    }

    /// The simple hash (realtime §9.1) that the data must have for a conditional write; nil for an
    /// unconditional one. Empty for no data.
    package var expectedHash: Text? {
        guard let ifMatch else { return nil }
        // An empty tag matches nothing. It must not become the empty hash, which means no data.
        return ifMatch == Text(Node.nullETag) ? "" : ifMatch.isEmpty ? "no tag" : ifMatch
    }

    /// Checks the conditional headers as far as that needs no data (§7).
    /// - Throws: ``RESTError/mixedCondition``, ``RESTError/mixedShallowAndETag``,
    ///   ``RESTError/unsupportedCondition(_:)``.
    package func checkConditions() throws(RESTError) {
        guard case .data = location else { return try checkConditionsWithoutTag() }
        if ifMatch != nil || ifNoneMatch != nil {
            guard !hasShallow, !hasQueryParameters, form.print != .silent else { throw .mixedCondition }
        }
        if asksForETag, hasShallow { throw .mixedShallowAndETag }
        if asksForETag, method == .patch { throw .unsupportedCondition(.etag) }
        if ifMatch != nil, method != .put, method != .delete { throw .unsupportedCondition(.ifMatch) }
        if ifNoneMatch != nil, !method.isRead { throw .unsupportedCondition(.ifNoneMatch) }
    }

    /// Rules, settings and reports have no tag. To carry out a write in spite of its condition could
    /// overwrite what another has written; to read is harmless.
    private func checkConditionsWithoutTag() throws(RESTError) {
        if ifMatch != nil { throw .unsupportedCondition(.ifMatch) }
        if ifNoneMatch != nil, !method.isRead { throw .unsupportedCondition(.ifNoneMatch) }
    }

    /// The value of a field that may stand on one line only: of two conditions, neither may be left out.
    private static func single(
        _ name: StaticString, _ condition: RESTError.Condition, _ head: RequestHead
    ) throws(RESTError) -> Text? {
        guard head.fields.count(of: name) <= 1 else { throw .repeatedCondition(condition) }
        return head.header(name)
    }

    /// Whether the result of a read is made for it, of children that the tree has, too: a query selects them.
    package var selectsChildren: Bool { isFiltered && query?.loadsAllData == false }

    /// The cursor behind a page of the query; nil for the last page (§5.5).
    /// - Throws: ``RESTError/cursorTooLong``.
    package func cursor(behind end: Window.PageEnd?) throws(RESTError) -> String? {
        guard let end, let query, case .data(let target) = location else { return nil }
        return try PageCursor(end).text(for: query, at: target.path)
    }

    /// The error for a query whose index the rules do not define (§4.2). ``indexName`` must be set.
    package func missingIndex(at path: Path) -> RESTError {
        .indexMissing(index: indexName ?? "", path: path)
    }
}

extension RequestHead {
    /// Whether `Accept` contains the type (§8), which must be in lower case.
    fileprivate func accepts(mediaType: String) -> Bool {
        fields.values(of: "accept").contains { $0.asciiString?.lowercased().contains(mediaType) == true }
    }
}

extension Node {
    /// The tag of absent data (rest §7).
    package static let nullETag = "null_etag"

    /// The tag of the data: its simple hash. O(size).
    package var etag: String { isEmpty ? Self.nullETag : hash }
}
