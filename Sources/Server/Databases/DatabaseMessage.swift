import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire

/// As whom a session acts; what a client sends to become somebody is ``PandoWire/Credential``.
typealias Credential = PandoRules.Credential

/// What the database thread is told, by I/O loops and by the journal.
enum DatabaseMessage: Sendable {
    /// A session has begun.
    indirect case open(SessionID, OpenRequest)
    case request(PostedRequest)
    /// As whom the session acts from now on.
    case identity(SessionID, Credential)
    /// These sign-ins of the session, as it numbers them, count no more
    /// (``Operation/revokeOnDisconnect(_:)``).
    case revoked(SessionID, Set<UInt32>)
    indirect case rest(SessionID, RESTCall, byteCount: Int)
    /// The answer to a request that no database need see; it must keep its place among the others.
    case answer(SessionID, Answer, byteCount: Int)
    /// All that the session has asked for before has been answered when this comes back (``RequestWindow``).
    case windowMark(SessionID)
    /// The client leaves much unread: what is pushed to it is coalesced until it has caught up
    /// (``PushCoalescer``).
    case lagging(SessionID)
    case caughtUp(SessionID)
    /// The connection is gone, for whatever reason.
    case closed(SessionID)
    /// What a suspended request waited for is there.
    case prepared(PreparedRequest)
    /// The files of `--rules` have been read again: rules by namespace, all there are.
    case rules([String: Ruleset])
    /// All entries up to this ticket are as durable as was asked for.
    case durable(UInt64)
    /// Enough log has gathered: a snapshot is wanted.
    case checkpointDue
    /// The disk has room again, after it had none.
    case spaceAvailable
    /// The loops have dealt out enough for more requests to be taken.
    case proceed
    /// End all sessions, make everything durable, and call back.
    case drain(@Sendable () -> Void)
}

extension DatabaseMessage {
    /// Requests up to this size may be light: one frame of a client, about.
    private static let lightByteCount = 16 << 10

    /// False for what may take long, as far as the message tells: hashes and windows of any amount of data,
    /// the end of a session with all its listens and writes. What is replaced tells the rest
    /// (``DatabaseHost/isLight(_:)``).
    var isLight: Bool {
        switch self {
        case .request(let request): request.byteCount <= Self.lightByteCount && request.isLight
        case .rest(_, let call, let byteCount): byteCount <= Self.lightByteCount && call.isLight
        case .open(_, let request): request.previousSession == nil
        case .answer, .windowMark, .lagging: true
        case .caughtUp, .closed, .identity, .revoked, .rules, .durable, .checkpointDue, .spaceAvailable,
            .proceed,
            .prepared, .drain:
            false
        }
    }
}

/// A request, and what it was suspended for.
final class PreparedRequest: Sendable {
    let session: SessionID
    /// The request, which was not taken yet.
    let message: DatabaseMessage
    let target: Target
    /// What was to be looked at: what its location held when it was suspended, or its own data.
    let work: PreparationJob.Work
    /// What was found in that.
    let preparation: Preparation
    /// Its data, if that was printed before.
    let printed: PrintedNodes?

    init(
        _ session: SessionID, _ message: DatabaseMessage, _ target: Target, _ work: PreparationJob.Work,
        _ preparation: Preparation, printed: PrintedNodes?
    ) {
        self.session = session
        self.message = message
        self.target = target
        self.work = work
        self.preparation = preparation
        self.printed = printed
    }
}

/// A request on its way from its connection to whoever is inside the ``DatabaseExecutor``. An object, so that
/// whoever hands it on copies a word; what it asks for is taken out at last, and not copied either. (As a
/// value it was copied three times, with all that it holds: a tenth of a set.)
///
/// `@unchecked Sendable`: one thread after the other holds it, and hands it on through a ``Mailbox``.
final class PostedRequest: @unchecked Sendable {
    let session: SessionID
    let number: Int64
    /// As whom it is asked.
    let credential: Credential
    /// Of which of its session's sign-ins ``credential`` is, where that matters: for what is queued. Else 0.
    let signIn: UInt32
    let byteCount: Int
    private(set) var action: Action
    /// Whether ``isLight``, once that was asked for.
    private var knownLight: Bool?

    init(
        _ session: SessionID, _ request: consuming Request, _ credential: Credential, signIn: UInt32,
        byteCount: Int
    ) {
        self.session = session
        number = request.number
        action = request.action
        self.credential = credential
        self.signIn = signIn
        self.byteCount = byteCount
    }

    /// What is asked for. Once.
    func takeAction() -> Action {
        assert(!isTaken)
        isTaken = true
        var taken = Action.statistics
        swap(&taken, &action)
        return taken
    }

    private var isTaken = false

    /// See ``DatabaseMessage/isLight``. Found out once.
    fileprivate var isLight: Bool {
        if let knownLight { return knownLight }
        let isLight = action.isLight
        knownLight = isLight
        return isLight
    }
}

extension DatabaseMessage {
    static func request(
        _ session: SessionID, _ request: consuming Request, _ credential: Credential, signIn: UInt32 = 0,
        byteCount: Int
    ) -> DatabaseMessage {
        .request(PostedRequest(session, request, credential, signIn: signIn, byteCount: byteCount))
    }
}

extension Action {
    /// Whether it may change the database, or what is written when the session ends.
    var isWrite: Bool {
        switch self {
        case .put, .merge, .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: true
        case .listen, .unlisten, .get, .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck,
            .unknown,
            .invalid:
            false
        }
    }

    fileprivate var isLight: Bool {
        switch self {
        case .put(_, _, nil, _): true
        case .put: false
        case .get: true
        case .listen, .unlisten: false
        case .merge, .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel: true
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid: true
        }
    }
}

/// What a client said when it connected (realtime §1.1).
struct OpenRequest: Sendable {
    /// Nil when neither `ns` nor the host names one.
    var namespace: String?
    /// The request's own `Host`: what the handshake tells the client to come back to (§1.4).
    var host: Text
    /// `ls`: a session of this client that may still look alive (§12.5).
    var previousSession: Text?
    /// What the client is to know the session by; nil for one that the database makes.
    var publicID: PublicSessionID?
}

/// Answers that the session itself knows.
enum Answer: Sendable {
    case ok(Int64)
    case authenticated(Int64, authVariable: Text?, expires: Int64?)
    case unauthenticated(Int64)
    case authenticationFailed(Int64, isExpired: Bool, reason: StaticString)
    /// Nobody could tell whose the token is; that it is a bad one is not said.
    case authenticationUnavailable(Int64, reason: StaticString)
    /// Not an answer: behind those before it, the connection ends.
    case finished
    case unknownAction(Int64)
    case tooBig(Int64)
    /// The disk is full.
    case diskFull(Int64)
    case invalid(Int64, InvalidData)
}
