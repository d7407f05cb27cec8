import PandoBytes
import PandoHTTP
import PandoTree

/// Why a request fails. Each case has its status and its text (rest §4.2, §7, §11).
package enum RESTError: Error, Equatable, Sendable {
    // Where (§1)
    /// The path does not end in `.json`.
    case notREST
    case noSuchDatabase
    case invalidPath
    case pathTooDeep
    /// The methods that the location has, for `Allow`.
    case methodNotAllowed(allowed: Methods)
    case unknownMethodOverride

    // Parameters (§4)
    case orderByMissing
    case orderByMalformed
    case bothLimits
    case limitNotInteger(Query.Anchor)
    case limitNotPositive(Query.Anchor)
    case equalToWithRange
    case boundNotPrimitive
    case boundNotString
    case bothStarts
    case bothEnds
    case shallowWithQuery
    case shallowStream
    case priorityStream
    case timeoutMalformed
    case writeSizeLimitMalformed
    case callbackMalformed
    case authVariableMalformed
    case whereMalformed
    /// `where` with fields or values that no query can have.
    case invalidWhere(InvalidData)
    /// `aggregate` with something that cannot be computed.
    case invalidAggregate(InvalidData)
    case cursorWithoutLimit
    /// `cursor` is none that a response has given.
    case cursorMalformed
    /// `cursor` is that of another query, or of another location.
    case cursorOfAnotherQuery
    /// The page ends with a string that no cursor can hold.
    case cursorTooLong
    case cursorStream
    /// The order needs an index that the rules do not define. The name is spelled as in `.indexOn`.
    case indexMissing(index: String, path: Path)

    // Inspection (§10)
    case parameter(Parameter)

    // Conditions (§7)
    case mixedCondition
    case mixedShallowAndETag
    case unsupportedCondition(Condition)
    /// On more than one line.
    case repeatedCondition(Condition)

    // Bodies (§2, §6)
    case noData
    case malformedData
    case malformedUpdate
    /// The body of an upload has no file (§10).
    case malformedUpload
    /// Of a `.value` or a `.sv`.
    case valueWithSiblings
    case invalidData(InvalidData)
    /// The write exceeds `writeSizeLimit`.
    case writeTooLarge
    /// The body exceeds the fixed limit.
    case payloadTooLarge
    /// The body's coding is not supported (RFC 9110 §15.5.16).
    case unsupportedCoding(String)
    /// The body is not valid gzip, or incomplete.
    case invalidGzip

    // Reads
    case readTooLarge
    case readTimedOut

    // Credentials (auth §4.1)
    case permissionDenied
    case tokenUnparsable
    case tokenExpired
    case unauthorized
    /// The address has shown too many bad tokens in the last minute.
    case tooManyFailures

    // The server
    case internalError
    case unavailable
    /// The disk is full: writes fail, reads still work.
    case diskFull
    /// Others have changed what a large write depends on, again and again.
    case contested
    /// The limit of connections is reached, and the request is not from an administrator.
    case tooManyConnections
    /// The client has exceeded a limit that is for clients; another try makes sense after so many seconds.
    case limitExceeded(ClientLimit, retrySeconds: Int)

    /// The methods of a kind of location.
    package enum Methods: Equatable, Sendable {
        case data, priority, settings, triggers, inspect, evaluate
    }

    /// A parameter of `/.inspect`, or a member of such a request's body, that is missing or malformed.
    package enum Parameter: Equatable, Sendable {
        case pathMissing, pathMalformed
        case partMalformed, atMalformed, limitMalformed, beforeMalformed
        case methodMalformed, valueMissing, authMalformed, rulesMalformed, queryMalformed, unknownMember
    }

    package enum Condition: Equatable, Sendable {
        case etag, ifMatch, ifNoneMatch

        var fieldName: String {
            switch self {
            case .etag: "X-Firebase-ETag"
            case .ifMatch: "if-match"
            case .ifNoneMatch: "if-none-match"
            }
        }
    }

    package var status: HTTPStatus {
        switch self {  // No `default`: a new error must choose its status here.
        case .notREST, .noSuchDatabase: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .permissionDenied, .tokenUnparsable, .tokenExpired, .unauthorized: .unauthorized
        case .tooManyFailures, .limitExceeded: .tooManyRequests
        case .payloadTooLarge: .contentTooLarge
        case .unsupportedCoding: .unsupportedMediaType
        case .internalError: .internalServerError
        case .unavailable, .diskFull, .contested, .tooManyConnections: .serviceUnavailable
        case .invalidPath, .pathTooDeep, .unknownMethodOverride, .orderByMissing, .orderByMalformed,
            .bothLimits,
            .limitNotInteger, .limitNotPositive, .equalToWithRange, .boundNotPrimitive, .boundNotString,
            .bothStarts, .bothEnds, .shallowWithQuery, .shallowStream, .priorityStream, .timeoutMalformed,
            .writeSizeLimitMalformed, .callbackMalformed, .authVariableMalformed, .indexMissing,
            .whereMalformed, .invalidWhere, .invalidAggregate, .cursorWithoutLimit, .cursorMalformed,
            .cursorOfAnotherQuery, .cursorTooLong, .cursorStream, .parameter, .mixedCondition,
            .mixedShallowAndETag, .unsupportedCondition, .repeatedCondition, .noData, .malformedData,
            .malformedUpdate, .malformedUpload, .valueWithSiblings, .invalidData, .writeTooLarge,
            .invalidGzip, .readTooLarge,
            .readTimedOut:
            .badRequest
        }
    }

    /// The text of `error` in the body.
    package var text: String {
        switch self {
        case .notREST: "append .json to your request URI to use the REST API."
        case .noSuchDatabase: "404 Not Found"
        case .invalidPath: "Invalid path: Invalid token in path"
        case .pathTooDeep: "Invalid path: \(InvalidData.tooDeep.message)"
        case .methodNotAllowed: "Method not allowed"
        case .unknownMethodOverride: "Unknown method in X-HTTP-Method-Override"

        case .orderByMissing: "orderBy must be defined when other query parameters are defined"
        case .orderByMalformed: "orderBy must be a valid JSON encoded path"
        case .bothLimits: "Only one of limitToFirst and limitToLast may be specified"
        case .limitNotInteger(let anchor): "\(anchor.parameterName) must be an integer"
        case .limitNotPositive(let anchor): "\(anchor.parameterName) must be positive"
        case .equalToWithRange:
            "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
        case .boundNotPrimitive: "Constraint index field must be a JSON primitive"
        case .boundNotString: "Provided key index type is invalid, must be string"
        case .bothStarts: "Only one of startAt and startAfter may be specified"
        case .bothEnds: "Only one of endAt and endBefore may be specified"
        case .shallowWithQuery:
            "shallow may only be combined with limitToFirst, startAfter, timeout and print"
        case .shallowStream: "shallow is not supported for event streams"
        case .priorityStream: ".priority is not supported for event streams"
        case .timeoutMalformed: "timeout must be a positive number of ms, s or min, and at most 15min"
        case .writeSizeLimitMalformed: "writeSizeLimit must be one of tiny, small, medium, large, unlimited"
        case .callbackMalformed: "Invalid callback name"
        case .authVariableMalformed: "auth_variable_override must be a JSON object or null"
        case .whereMalformed: "where must be a JSON object of primitives"
        case .invalidWhere(let problem), .invalidAggregate(let problem): problem.message
        case .cursorWithoutLimit: "cursor needs limitToFirst or limitToLast"
        case .cursorMalformed: "cursor is not one of this server"
        case .cursorOfAnotherQuery: "cursor belongs to another query or path"
        case .cursorTooLong:
            "The page ends with a string of more than \(PageCursor.stringByteCount) bytes, which no cursor can hold"
        case .cursorStream: "cursor is not supported for event streams"
        case .indexMissing(let index, let path):
            "Index not defined, add \".indexOn\": \"\(index)\", for path \"\(path)\", to the rules"

        case .parameter(let parameter): parameter.text

        case .mixedCondition:
            "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
        case .mixedShallowAndETag: "Mixing 'shallow' and etag requests is not supported"
        case .unsupportedCondition(let condition): "\(condition.fieldName) is not supported for this method"
        case .repeatedCondition(let condition): "\(condition.fieldName) may stand on one line only"

        case .noData: "Error: No data supplied."
        case .malformedData: "Invalid data; couldn't parse JSON object, array, or value."
        case .malformedUpdate, .invalidData(.key), .invalidData(.notAnObject), .invalidData(.reservedPath):
            "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
        case .malformedUpload: "Invalid data; the body must be multipart/form-data with a file of JSON."
        case .invalidData(.serverValue): "unrecognized server value"
        case .valueWithSiblings: "Invalid data: .value and .sv may not stand beside other children"
        case .invalidData(let problem): problem.message
        case .writeTooLarge:
            "Data to write exceeds the maximum size that can be modified with a single request."
        case .payloadTooLarge: "Payload too large"
        case .unsupportedCoding(let coding): "Content-Encoding \(coding) is not supported"
        case .invalidGzip: "Invalid data; the body is not valid gzip."
        case .readTooLarge:
            "Data requested exceeds the maximum size that can be accessed with a single request."
        case .readTimedOut: "The request took longer than its timeout"

        case .permissionDenied: "Permission denied"
        case .tokenUnparsable: "Could not parse auth token."
        case .tokenExpired: "Auth token is expired"
        case .unauthorized: "Unauthorized request."
        case .tooManyFailures: "Too many bad credentials from this address; try again in a minute."

        case .internalError: "Internal server error"
        case .unavailable: "Service unavailable"
        case .diskFull: "The server's disk is full: writes fail until there is space again"
        case .contested:
            "The data changed while this write was prepared; try again, or write fewer paths at once"
        case .tooManyConnections:
            "Too many connections are open: only requests of administrators are answered until some of them close"
        case .limitExceeded(let limit, _): "\(limit.text)"
        }
    }
}

extension RESTError.Methods {
    /// The value of `Allow` (RFC 9110 §10.2.1).
    package var list: StaticString {
        switch self {
        case .data: "GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS"
        case .priority: "GET, HEAD, PUT, DELETE, OPTIONS"
        case .settings: "GET, HEAD, PUT, OPTIONS"
        case .triggers: "GET, HEAD, PUT, POST, OPTIONS"
        case .inspect: "GET, HEAD, OPTIONS"
        case .evaluate: "POST, OPTIONS"
        }
    }
}

extension RESTError.Parameter {
    fileprivate var text: String {
        switch self {
        case .pathMissing: "path is missing: give the location, such as /rooms/r1"
        case .pathMalformed: "path must be the legal path of a location, such as /rooms/r1"
        case .partMalformed: "part must be \"all\", \"writes\" or \"rules\""
        case .atMalformed: "at must be a time in milliseconds since 1970"
        case .limitMalformed: "limit must be a positive number"
        case .beforeMalformed: "before must be the sequence of a write"
        case .methodMalformed: "method must be \"read\" or \"write\""
        case .valueMissing: "value is missing: give what would be written, or null for a removal"
        case .authMalformed:
            "auth must be null, \"admin\" or an object such as {\"uid\":\"ann\",\"token\":{}}"
        case .rulesMalformed: "rules must be the text of a rules document"
        case .queryMalformed:
            "query must be an object of orderBy, limitToFirst, limitToLast, startAt, startAfter, endAt, endBefore and equalTo"
        case .unknownMember:
            "the members of the body are method, path, value, auth, query and rules; the database is named in the query string: ?ns=…"
        }
    }
}

extension Query.Anchor {
    fileprivate var parameterName: String {
        switch self {
        case .first: "limitToFirst"
        case .last: "limitToLast"
        }
    }
}
