/// What was tried in all: a run that did none of something proves nothing about it.
package struct Totals: CustomStringConvertible, Sendable {
    var lives = 0
    var answers = 0
    var powerCuts = 0
    var kills = 0
    var stops = 0
    var failedOperations = 0
    var flippedBits = 0
    var refusedStarts = 0
    var fullDiskRefusals = 0
    var checkpoints = 0
    var takenSegments = 0
    var clockJumps = 0
    var floodedRequests = 0
    var hangUps = 0
    var droppedReads = 0
    var overtakings = 0
    var connections = 0
    var secureConnections = 0
    var interruptedHandshakes = 0
    var brokenTLS = 0
    var pieces = 0
    var networkResets = 0
    var departures = 0
    var pings = 0
    var events = 0
    var sweeps = 0
    /// Indexes that were ready when a server ended.
    var indexes = 0
    /// Of what the scheduler allows, the largest share that a request had to wait.
    var longestWaitPercent = 0

    package init() {}

    package static func += (sum: inout Totals, one: Totals) {
        sum.lives += one.lives
        sum.answers += one.answers
        sum.powerCuts += one.powerCuts
        sum.kills += one.kills
        sum.stops += one.stops
        sum.failedOperations += one.failedOperations
        sum.flippedBits += one.flippedBits
        sum.refusedStarts += one.refusedStarts
        sum.fullDiskRefusals += one.fullDiskRefusals
        sum.checkpoints += one.checkpoints
        sum.takenSegments += one.takenSegments
        sum.clockJumps += one.clockJumps
        sum.floodedRequests += one.floodedRequests
        sum.hangUps += one.hangUps
        sum.droppedReads += one.droppedReads
        sum.overtakings += one.overtakings
        sum.connections += one.connections
        sum.secureConnections += one.secureConnections
        sum.interruptedHandshakes += one.interruptedHandshakes
        sum.brokenTLS += one.brokenTLS
        sum.pieces += one.pieces
        sum.networkResets += one.networkResets
        sum.departures += one.departures
        sum.pings += one.pings
        sum.events += one.events
        sum.sweeps += one.sweeps
        sum.indexes += one.indexes
        sum.longestWaitPercent = max(sum.longestWaitPercent, one.longestWaitPercent)
    }

    private var parts: [(Int, String)] {
        [
            (lives, "starts"), (answers, "answers"), (powerCuts, "power cuts"), (kills, "kills"),
            (stops, "stops"),
            (failedOperations, "failed disk operations"), (flippedBits, "flipped bits"),
            (refusedStarts, "starts refused"), (fullDiskRefusals, "writes refused for space"),
            (checkpoints, "checkpoints"), (takenSegments, "prepared segments taken"),
            (clockJumps, "clocks set back"), (floodedRequests, "requests in floods"),
            (hangUps, "floods that hung up"), (droppedReads, "reads dropped"),
            (connections, "connections"), (secureConnections, "of them with TLS"),
            (interruptedHandshakes, "handshakes interrupted"), (brokenTLS, "bad records"),
            (pieces, "cuts of their bytes"),
            (networkResets, "connections reset by the network"), (departures, "clients that left"),
            (pings, "pings"), (events, "events of streams"), (sweeps, "sweeps"),
            (indexes, "indexes at ends of servers"),
            (overtakings, "answers overtaken"), (longestWaitPercent, "% of the longest wait allowed"),
        ]
    }

    package var description: String { parts.map { "\($0) \($1)" }.joined(separator: ", ") }

    /// Something that never happened; nil when everything did.
    package var untried: String? { parts.first { $0.0 == 0 }?.1 }
}
