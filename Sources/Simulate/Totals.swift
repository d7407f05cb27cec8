/// What was tried in all: a run that did none of something proves nothing about it.
struct Totals: CustomStringConvertible {
    var lives = 0
    var answers = 0
    var powerCuts = 0
    var kills = 0
    var stops = 0
    var failedOperations = 0
    var flippedBits = 0
    var refusedStarts = 0
    var refusalsForRoom = 0
    var checkpoints = 0
    var preparedSegments = 0
    var clockJumps = 0

    static func += (sum: inout Totals, one: Totals) {
        sum.lives += one.lives
        sum.answers += one.answers
        sum.powerCuts += one.powerCuts
        sum.kills += one.kills
        sum.stops += one.stops
        sum.failedOperations += one.failedOperations
        sum.flippedBits += one.flippedBits
        sum.refusedStarts += one.refusedStarts
        sum.refusalsForRoom += one.refusalsForRoom
        sum.checkpoints += one.checkpoints
        sum.preparedSegments += one.preparedSegments
        sum.clockJumps += one.clockJumps
    }

    var description: String {
        "\(lives) starts, \(answers) answers, \(powerCuts) power cuts, \(kills) kills, \(stops) stops, "
            + "\(failedOperations) failed disk operations, \(flippedBits) flipped bits, \(refusedStarts) starts refused, "
            + "\(refusalsForRoom) writes refused for room, \(checkpoints) checkpoints, \(preparedSegments) segments prepared, "
            + "\(clockJumps) clocks set back"
    }
}
