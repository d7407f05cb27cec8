import COperatingSystem

/// A signal that the program handles.
package enum Signal: Sendable {
    /// SIGHUP: reload rules, keys and certificates.
    case hangUp
    /// SIGINT: Ctrl-C.
    case interrupt
    /// SIGTERM: drain connections and exit.
    case terminate
}

/// SIGHUP, SIGINT and SIGTERM as events of a loop (signalfd): the handler is no signal handler, and may call
/// any function. Confined to its loop.
package final class Signals: Pollable {
    private let loop: EventLoop
    private let handler: (Signal) -> Void

    /// Blocks the three signals in this thread and in those that it starts, and ignores SIGPIPE and SIGXFSZ
    /// in the process: the calls that would cause them return an error instead.
    ///
    /// Call it first in `main`: a signal that is delivered to a thread that does not block it ends the
    /// process.
    package static func block() {
        let result = pando_signals_block()
        precondition(result == 0, "cannot block signals: \(errorText(-result))")
    }

    /// Lets SIGTERM and SIGINT end the process at once while this thread does long work that a SIGKILL may
    /// interrupt, too, and that starts no thread; before anything handles the signals. Or blocks them again.
    package static func setEndsProcess(_ endsProcess: Bool) {
        let result = pando_signals_end_process(endsProcess ? 1 : 0)
        precondition(result == 0, "cannot change which signals are blocked: \(errorText(-result))")
    }

    /// - Parameter handler: Called on the loop, once per signal received. The kernel keeps one bit for each
    ///   signal, so equal signals that arrive together are one call.
    /// - Throws: EMFILE, ENFILE, ENOMEM.
    @discardableResult
    package init(on loop: EventLoop, handler: @escaping (Signal) -> Void) throws(SocketError) {
        self.handler = handler
        self.loop = loop
        super.init(descriptor: try checked(pando_signalfd_create(), "create a signalfd"))
        try loop.poller.watch(self, PANDO_READABLE)
    }

    override func ready(_ events: UInt32) {
        while isWatched {
            switch pando_signalfd_next(descriptor) {
            case PANDO_SIGHUP: handler(.hangUp)
            case PANDO_SIGINT: handler(.interrupt)
            case PANDO_SIGTERM: handler(.terminate)
            default: return
            }
        }
    }

    override func loopDidStop() {
        loop.poller.close(self)
    }
}
