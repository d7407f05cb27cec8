// When a client is not read.

extension ClientSession {
    func pause(_ reason: PauseReasons) {
        if pauseReasons.isEmpty { pauseReading() }
        pauseReasons.insert(reason)
    }

    func resume(_ reason: PauseReasons) {
        guard pauseReasons.contains(reason) else { return }
        pauseReasons.remove(reason)
        if pauseReasons.isEmpty { resumeReading() }
    }

    func resumeAll() {
        guard !pauseReasons.isEmpty else { return }
        pauseReasons = []
        resumeReading()
    }

    var isPausedForCongestion: Bool { pauseReasons.contains(.congestion) }

    var isReadingPaused: Bool { !pauseReasons.isEmpty }
}
