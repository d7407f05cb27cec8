import CSystem

package enum Signal: Sendable {
    /// SIGHUP: reload what can be reloaded.
    case hangUp
    /// SIGINT: Ctrl-C.
    case interrupt
    /// SIGTERM: drain and leave.
    case terminate
}

/// SIGHUP, SIGINT and SIGTERM as events of a loop, where the handler may do anything. Confined to its loop.
package final class Signals: Pollable {
    private let handler: (Signal) -> Void

    /// Blocks the three signals in this thread and all it will start, and ignores SIGPIPE and
    /// SIGXFSZ in the process: the calls that cause them fail instead.
    ///
    /// First thing in `main`: a signal that some thread does not block is delivered there, and ends the
    /// process.
    package static func block() {
        let result = pando_signals_block()
        precondition(result == 0, "cannot block signals: \(errorText(-result))")
    }

    /// - Parameter handler: Called on the loop, once per signal received. (Equal signals that arrive together
    ///   are one: the kernel keeps a bit, not a queue.)
    /// - Throws: EMFILE, ENFILE, ENOMEM.
    @discardableResult
    package init(on loop: EventLoop, handler: @escaping (Signal) -> Void) throws(SocketError) {
        self.handler = handler
        super.init(descriptor: try checked(pando_signalfd_create(), "create a signalfd"), loop: loop)
        try watch(PANDO_READABLE)
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
        closeDescriptor()
    }
}
