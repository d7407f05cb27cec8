import PandoBytes

/// What a client has sent that may not be read yet: behind a request that is in progress, say.
struct InputAhead {
    private var bytes: [UInt8] = []
    /// How much of it was read.
    private var offset: UInt32 = 0
    /// It is being read: what is not, stays here.
    private(set) var isReading = false

    var byteCount: Int { bytes.count }

    mutating func append(_ new: RawSpan) { bytes.append(new) }

    /// Takes the bytes out to be read, with the offset at which to begin; nil where there are none.
    mutating func begin() -> (bytes: [UInt8], offset: Int)? {
        guard !bytes.isEmpty else { return nil }
        isReading = true
        defer { offset = 0 }
        return (exchange(&bytes, with: []), Int(offset))
    }

    /// Puts the bytes back, of which those before `offset` were read. They wait where they are: copied behind
    /// each request, a long pipeline would cost its square.
    mutating func end(_ read: consuming [UInt8], from offset: Int) {
        isReading = false
        guard offset < read.count else { return }
        bytes = read
        // A connection keeps what one read has brought, and a little: far less than 4 GiB.
        self.offset = UInt32(offset)
    }
}
