import PandoConnections
import PandoREST
import PandoReactor
import PandoSettings
import PandoStaticFiles

extension ConnectionSettings {
    /// What the configuration says, for the connections of one loop.
    init(
        _ configuration: Configuration, loop index: UInt8, of loopCount: Int,
        _ channels: EventLoop.Configuration, site: StaticSiteHolder
    ) {
        self.init()
        loopIndex = index
        self.loopCount = loopCount
        outboundByteLimit = channels.outboundByteLimit
        outboundLowWaterByteCount = channels.outboundLowWaterByteCount
        messageByteLimit = configuration.messageByteLimit
        chunkCountLimit = configuration.chunkCountLimit
        headLimits = configuration.headLimits
        limits.rates = configuration.writeRates
        readByteLimit = configuration.readByteLimit
        writeByteLimit = configuration.writeByteLimit
        idleTimeout = configuration.idleTimeout
        pingSilence = configuration.pingSilence
        requestTimeout = configuration.requestTimeout
        stallTimeout = configuration.stallTimeout
        pollHoldTime = configuration.pollHoldTime
        pollGap = configuration.pollGap
        isDevelopment = configuration.isDevelopment
        logsAccess = configuration.logsAccess
        allowedOrigins = configuration.allowedOrigins
        compressor = ResponseCompressor()
        siteHolder = site
    }
}
