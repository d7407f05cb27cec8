import PandoBytes
import PandoHTTP
import Testing

/// The head that these lines make.
func head(_ lines: [String]) throws -> RequestHead {
    var reader = RequestHeadReader()
    var offset = 0
    let bytes = Array((lines + ["", ""]).joined(separator: "\r\n").utf8)
    return try #require(try reader.read(bytes.rawSpan, from: &offset))
}

func head(_ lines: String...) throws -> RequestHead { try head(lines) }
