import COperatingSystem

/// Between the socket of a channel and its delegate where it does not speak TLS; otherwise a
/// ``SecureStage``. It has no state.
enum PlainStage {
    /// Most system calls of a flush, of 1024 chunks each; the rest waits for the next tick, so that other
    /// channels are flushed in this one.
    private static let roundLimit = 4

    /// Receives into the loop's buffer, with one system call.
    /// - Returns: The result of recv(2), and whether the peer has more, probably.
    static func read(
        _ descriptor: Int32, atMost byteLimit: Int, _ buffers: LoopBuffers
    ) -> (result: Int64, isFull: Bool) {
        let byteLimit = unsafe min(buffers.received.count, byteLimit)
        let result = unsafe pando_receive(descriptor, buffers.received.baseAddress, byteLimit)
        return (result, result >= byteLimit)
    }

    /// Gives the kernel as much as it accepts.
    /// - Returns: A negative errno, or 0.
    static func flush(
        _ output: inout ChannelOutput, to descriptor: Int32, _ buffers: LoopBuffers
    ) -> Int64 {
        var rounds = roundLimit
        while output.unsentByteCount > 0 {
            let (sliceCount, offered) = output.gather(in: buffers)
            // The slices point into the cork buffer and into chunks that the queue holds: nothing changes
            // them here.
            let accepted =
                unsafe sliceCount == 1
                ? pando_send(descriptor, buffers.slices[0].base, buffers.slices[0].count)
                : pando_send_slices(descriptor, buffers.slices.baseAddress, Int32(sliceCount))
            guard accepted >= 0 || accepted == -Int64(PANDO_EAGAIN) else { return accepted }
            let sent = max(0, Int(accepted))
            output.remove(sent, in: buffers)
            output.countSent(sent)
            rounds -= 1
            if sent < offered || (rounds == 0 && output.unsentByteCount > 0) {
                output.isBlocked = true
                break
            }
        }
        if output.unsentByteCount == 0 { output.isBlocked = false }
        return 0
    }
}
