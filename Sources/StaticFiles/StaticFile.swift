import PandoBytes
import PandoCompression
import Synchronization

/// One file of a site: its bytes, as they are and compressed, with the tag of each form.
///
/// A class, because all loops serve the same file: it is compressed once, at the first request that accepts
/// gzip.
package final class StaticFile: Sendable {
    /// The file's bytes in one coding (RFC 9110 §8.8.3: each representation has a tag of its own).
    struct Representation: Sendable {
        let bytes: [UInt8]
        /// With its quotation marks.
        let etag: String
        let isGzip: Bool
    }

    let contentType: StaticString
    /// Whether gzip makes files of this type smaller.
    let isCompressible: Bool
    private let plain: Representation
    /// Nil until the first request for it. Equal to `plain` where gzip does not make it smaller.
    private let packed = Mutex<Representation?>(nil)

    /// A shorter file fits into the first packet with its head.
    private static let compressedByteCount = 1 << 10
    /// zlib's default: a file is compressed once and sent often.
    private static let compressionLevel = 6
    /// Hexadecimal digits of a tag: 128 bits of SHA-256.
    private static let tagDigitCount = 32

    /// - Parameters:
    ///   - path: Its suffix says the type.
    ///   - bytes: The file.
    /// - Complexity: O(bytes).
    init(path: String, _ bytes: [UInt8]) {
        (contentType, isCompressible) = Self.type(of: path)
        let tag = String(SHA256Digest(of: bytes.rawSpan).description.prefix(Self.tagDigitCount))
        plain = Representation(bytes: bytes, etag: "\"\(tag)\"", isGzip: false)
    }

    /// The file in the smallest coding that the client accepts.
    /// - Complexity: O(bytes) at the first call with `acceptsGzip`, O(1) later.
    func representation(acceptsGzip: Bool) -> Representation {
        guard acceptsGzip, isCompressible, plain.bytes.count > Self.compressedByteCount else { return plain }
        return packed.withLock { packed in
            if let packed { return packed }
            guard let deflater = try? Deflater(.gzip, level: Self.compressionLevel) else { return plain }
            let source = plain.bytes
            var bytes: [UInt8] = []
            deflater.deflate(source.rawSpan, flush: .finish, into: &bytes)
            let made =
                bytes.count < plain.bytes.count
                ? Representation(bytes: bytes, etag: "\(plain.etag.dropLast())-gzip\"", isGzip: true) : plain
            packed = made
            return made
        }
    }

    private static func type(of path: String) -> (StaticString, isCompressible: Bool) {
        let name = path.split(separator: "/").last ?? ""
        let suffix = name.contains(".") ? name.split(separator: ".").last.map { $0.lowercased() } : nil
        return switch suffix {
        case "html": ("text/html; charset=utf-8", true)
        case "js", "mjs": ("text/javascript; charset=utf-8", true)
        case "css": ("text/css; charset=utf-8", true)
        case "md": ("text/markdown; charset=utf-8", true)
        case "txt", nil: ("text/plain; charset=utf-8", true)
        case "svg": ("image/svg+xml", true)
        case "webmanifest": ("application/manifest+json", true)
        case "wasm": ("application/wasm", true)
        case "png": ("image/png", false)
        case "jpg", "jpeg": ("image/jpeg", false)
        case "webp": ("image/webp", false)
        case "ico": ("image/vnd.microsoft.icon", false)
        case "woff2": ("font/woff2", false)
        default: ("application/octet-stream", false)
        }
    }
}
