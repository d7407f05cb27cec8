import PandoBytes
import PandoDatabase
import PandoIdentity

// Events of a session by long polling that come from the databases, the workers and the loop.

extension LongPollingSession {
    /// Sends whole frames.
    package mutating func send(_ frames: RawSpan, _ context: inout ConnectionContext) {
        guard isOpen else { return }
        if outputs.isReady {
            write(frames, &context)
            pauseIfMuchIsUnsent(&context)
        } else {
            sendInOrder([UInt8](copying: frames), &context)
        }
        schedule(&context)
    }

    /// Sends a message that others get, too, as ``OutputForm/script``. Copies nothing.
    package mutating func send(script: SharedBytes, _ context: inout ConnectionContext) {
        sendInOrder(script, &context)
        schedule(&context)
    }

    /// Sends a large message.
    package mutating func send(_ message: LargeMessage, _ context: inout ConnectionContext) {
        sendInOrder(message, &context)
        schedule(&context)
    }

    /// A worker has encoded a large message.
    package mutating func encoded(_ message: LargeMessage, _ context: inout ConnectionContext) {
        sendEncoded(message, &context)
        schedule(&context)
    }

    /// The requests before a mark of the request window were answered, and the answers given to
    /// ``send(_:_:)``.
    package mutating func windowMarkReturned(_ context: inout ConnectionContext) {
        returnWindowMarkInOrder(&context)
        schedule(&context)
    }

    /// A worker has parsed a large message.
    package mutating func parsed(_ message: ParsedMessage, _ context: inout ConnectionContext) {
        if case .malformed = session.parsed(message, isOpen: isOpen, &context) { cut(&context) }
        inputMayContinue(&context)
        schedule(&context)
    }

    /// A token was verified.
    package mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) {
        finishVerifying(result, &context)
        schedule(&context)
    }

    /// The client has shown an administrator's certificate as it began the session, of which the databases
    /// know.
    package mutating func becomeAdministrator(_ context: inout ConnectionContext) {
        session.becomeAdministrator(&context)
    }

    /// The credential has expired.
    package mutating func expired(_ context: inout ConnectionContext) {
        signOut(.expired, &context)
        schedule(&context)
    }

    /// Keys or revocations have changed.
    package mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext) {
        recheck(signIn: revocations, &context)
        schedule(&context)
    }

    /// Pauses the client for a reason outside of this state machine.
    package mutating func pause(_ reason: PauseReasons) { pauses.insert(reason) }

    /// The reason is gone.
    package mutating func resume(after reason: PauseReasons, _ context: inout ConnectionContext) {
        resume(reason, &context)
        schedule(&context)
    }
}
