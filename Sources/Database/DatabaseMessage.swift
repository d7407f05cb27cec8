import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoRules
import PandoStorage
import PandoTime
import PandoTree
import PandoWire

/// A message to the databases: from connections, from the journal, from workers, and from the operator.
///
/// Messages of one session are processed in the order in which they were posted, and their outputs are posted
/// in that order (``OutputBatch``). Only the end of a credential overtakes what waits. Three words: what
/// takes more is behind a reference.
package enum DatabaseMessage: Sendable {
    /// A realtime session begins.
    indirect case open(SessionID, OpenRequest)
    /// A request of a realtime session.
    case request(PostedRequest)
    /// The credential of the session from now on.
    /// - number: Which of its credentials that is: 1 for the first; 0 where it is signed out.
    indirect case credentialChanged(SessionID, Credential, number: UInt32 = 0)
    /// The credential of that number, and all before it, have ended: the session is signed out, and what it
    /// has sent under one of them is refused. Overtakes the requests of the session.
    case credentialEnded(SessionID, number: UInt32)
    /// These sign-ins of the session, by its own numbers, are revoked (``Operation/revokeOnDisconnect(_:)``):
    /// what they have queued is dropped. Overtakes the requests of the session.
    /// - upTo: What was sent under credentials up to this number is not queued any more either.
    case revoked(SessionID, Set<UInt32>, upTo: UInt32 = .max)
    /// A REST request, on a session of its own.
    indirect case rest(SessionID, RESTCall, byteCount: Int)
    /// The reply to a request that needs no database; it keeps its place among the others.
    indirect case reply(SessionID, SessionReply, byteCount: Int)
    /// Comes back as ``OutputBatch/Item/windowMark(_:)`` behind the replies to everything before it.
    case windowMark(SessionID)
    /// Much is unsent to the client: its pushes are coalesced until ``caughtUp(_:)`` (``PushCoalescer``).
    case lagging(SessionID)
    /// The client has taken what was unsent.
    case caughtUp(SessionID)
    /// The connection is closed, for whatever reason: the session ends.
    case closed(SessionID)
    /// Go on to end the listens of sessions of a database that have ended (``EndingSessions``).
    case continueEnding(database: UInt32)
    /// Go on with the checks of listens (``AccessManager``).
    case listenChecks
    /// A worker has finished what a suspended request waited for.
    case prepared(PreparedRequest)
    /// A worker has finished what the indexes of a database need, which is of this name.
    indirect case indexed(String, IndexJobResult)
    /// The files of `--rules` were read again: all rules, by namespace.
    case rules([String: Ruleset])
    /// How far the journal is durable, that a checkpoint is due, or that a full disk has space again.
    case storage(StorageEvent)
    /// Enough outputs were delivered for more requests to be processed.
    case outputsDelivered
    /// End all sessions, and call back once their outputs are released. What clients post later is dropped.
    case drain(@Sendable () -> Void)
    /// Say what the databases hold: for metrics and for administrators.
    case statistics(DatabaseStatisticsRequest)
    /// Say which path patterns cost most.
    case usage(@Sendable (UsageSnapshot) -> Void)
    /// Give a snapshot to a scheduled backup, when everything that it holds is on disk.
    case backup(@Sendable (CheckpointJob) -> Void)
    /// Give the trees of all databases, as they are in memory, to a function that does little. O(databases).
    case trees(@Sendable ([Node]) -> Void)
}

extension DatabaseMessage {
    /// Bytes of a request up to which it may be light: about one frame of a client.
    fileprivate static let lightByteCount = 16 << 10

    /// Whether processing takes little time, as far as the message alone shows. False for hashes and query
    /// windows of any amount of data, and for the end of a session with all its listens and writes. What a
    /// write replaces decides the rest (``LightWork``). O(1): decided when the request was made.
    package var isLight: Bool {
        switch self {
        case .request(let request): request.isLight
        case .rest(_, let call, let byteCount): byteCount <= Self.lightByteCount && call.isLight
        case .open(_, let request): request.previousSession == nil
        case .reply, .windowMark, .lagging: true
        case .caughtUp, .closed, .continueEnding, .credentialChanged, .credentialEnded, .revoked, .rules,
            .storage,
            .outputsDelivered, .listenChecks, .prepared, .indexed, .drain, .statistics, .usage, .backup,
            .trees:
            false
        }
    }
}

/// A request that was suspended, with the result of what it waited for.
package final class PreparedRequest: Sendable {
    let session: SessionID
    /// The request, which was not executed yet.
    let message: DatabaseMessage
    let target: Target
    /// The data of the computation: what its location held when it was suspended, or its own data.
    let work: PreparationJob.Work
    /// The result.
    let preparation: Preparation
    /// Its own data, where it was printed before.
    let printed: PrintedNodes?
    /// What is done for the request when this is.
    let stage: PreparationStage

    init(
        _ session: SessionID, _ message: DatabaseMessage, _ target: Target, _ work: PreparationJob.Work,
        _ preparation: Preparation, printed: PrintedNodes?, stage: PreparationStage
    ) {
        self.session = session
        self.message = message
        self.target = target
        self.work = work
        self.preparation = preparation
        self.printed = printed
        self.stage = stage
    }
}

/// A request on its way from its connection to the databases. An object, so that passing it on copies one
/// word; its action is moved out in the end, and not copied either. (As a value it was copied three times,
/// with everything that it holds: a tenth of a set.)
///
/// It takes at most 152 bytes, so that the database thread frees without a lock what a loop has allocated
/// (``raiseFastbinLimit()``). With 168, it waited 7000 times a second for that lock, and a server with 100
/// clients executed two thirds as many sets.
///
/// `@unchecked Sendable`: one thread after the other holds it, and passes it on through a ``Mailbox``.
package class PostedRequest: @unchecked Sendable {
    package final let session: SessionID
    /// The client's number of the request, which the reply repeats.
    package final let number: Int64
    /// Whose rights it has.
    package final let credential: Credential
    /// Which of the session's sign-ins ``credential`` belongs to, for requests that queue writes; otherwise
    /// 0.
    package final let signIn: UInt32
    private final let byteCount32: UInt32
    package private(set) final var action: Action
    /// See ``DatabaseMessage/isLight``.
    final let isLight: Bool
    private final var isActionTaken = false
    /// Which of the session's credentials ``credential`` is
    /// (``DatabaseMessage/credentialChanged(_:_:number:)``). Here it takes no space of its own.
    final let credentialNumber: UInt32
    /// When it was read from its socket; the latest time there is where that is not known.
    final let received: MonotonicTime

    /// Bytes of its message, which has at most 16 MB (realtime §3).
    package final var byteCount: Int { Int(byteCount32) }

    package init(
        _ session: SessionID, _ request: consuming Request, _ credential: Credential,
        credentialNumber: UInt32, signIn: UInt32, byteCount: Int, received: MonotonicTime
    ) {
        self.received = received
        self.credentialNumber = credentialNumber
        self.session = session
        number = request.number
        // Moved out, so that no reference is counted.
        action = exchange(&request.action, with: .statistics)
        self.credential = credential
        self.signIn = signIn
        byteCount32 = UInt32(clamping: byteCount)
        isLight = byteCount <= DatabaseMessage.lightByteCount && action.isLight
    }

    /// Moves the action out. Once.
    final func takeAction() -> Action {
        assert(!isActionTaken, "a request is executed once")
        isActionTaken = true
        return exchange(&action, with: .statistics)
    }

    /// Puts the action of a request back that was not executed.
    final func returnAction(_ action: Action) {
        assert(isActionTaken, "nothing was taken")
        isActionTaken = false
        self.action = action
    }
}

/// A large request, with what it takes of the process's memory as long as it is held.
private final class LargeRequest: PostedRequest, @unchecked Sendable {
    private let grant: ParsingBudget.Grant

    init(
        _ session: SessionID, _ request: consuming Request, _ credential: Credential,
        credentialNumber: UInt32, signIn: UInt32, byteCount: Int, received: MonotonicTime,
        _ grant: ParsingBudget.Grant
    ) {
        self.grant = grant
        super.init(
            session, request, credential, credentialNumber: credentialNumber, signIn: signIn,
            byteCount: byteCount, received: received)
    }
}

extension DatabaseMessage {
    /// - Parameters:
    ///   - credentialNumber: Which of the session's credentials it is; 0 for none.
    ///   - signIn: Which of the session's sign-ins the credential belongs to, for requests that queue writes.
    ///   - byteCount: Bytes of the request's message.
    ///   - received: When it was read from its socket.
    ///   - grant: What a large one takes of the process's memory.
    package static func request(
        _ session: SessionID, _ request: consuming Request, _ credential: Credential,
        credentialNumber: UInt32 = 0, signIn: UInt32 = 0, byteCount: Int,
        received: MonotonicTime = MonotonicTime(nanoseconds: .max), grant: ParsingBudget.Grant? = nil
    ) -> DatabaseMessage {
        if let grant {
            return .request(
                LargeRequest(
                    session, request, credential, credentialNumber: credentialNumber, signIn: signIn,
                    byteCount: byteCount, received: received, grant))
        }
        return .request(
            PostedRequest(
                session, request, credential, credentialNumber: credentialNumber, signIn: signIn,
                byteCount: byteCount, received: received))
    }
}

extension Action {
    /// Whether it may change the database, or the writes that are queued for the end of the session.
    package var isWrite: Bool {
        switch self {
        case .put, .transaction, .merge, .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: true
        case .listen, .unlisten, .get, .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck,
            .unknown,
            .invalid:
            false
        }
    }

    /// Whether the credential decides if it is permitted; false for what ends a listen or cancels a write.
    var usesCredential: Bool {
        switch self {
        case .listen, .get, .put, .transaction, .merge, .onDisconnectPut, .onDisconnectMerge: true
        case .unlisten, .onDisconnectCancel, .statistics, .authenticate, .unauthenticate, .appCheck,
            .dropAppCheck, .unknown, .invalid:
            false
        }
    }

    fileprivate var isLight: Bool {
        switch self {
        case .put, .get: true
        case .transaction, .listen, .unlisten: false
        case .merge, .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: true
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid: true
        }
    }
}

/// What a client has sent when it connected (realtime §1.1).
package struct OpenRequest: Sendable {
    /// The namespace as the client spelled it; nil where neither `ns` nor the host names one.
    package var namespace: String?
    /// The `Host` of its request: the handshake names it for reconnecting (realtime §1.4).
    package var host: Text
    /// `ls`: an earlier session of this client that may still be open (realtime §12.5).
    package var previousSession: Text?
    /// The id of the session for its client; nil where the databases choose one.
    package var publicID: PublicSessionID?

    package init(
        namespace: String?, host: Text, previousSession: Text?, publicID: PublicSessionID? = nil
    ) {
        self.namespace = namespace
        self.host = host
        self.previousSession = previousSession
        self.publicID = publicID
    }
}
