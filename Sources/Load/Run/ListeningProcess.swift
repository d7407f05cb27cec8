import Foundation
import PandoReactor
import PandoTraffic

//  /proc/net/tcp      sl  local_address rem_address   st … inode
//                      0: 0100007F:2328 00000000:0000 0A … 48213       0A: it listens; addresses in hex

/// The process that listens on a port of this machine, so that its processor time can be shown; nil when it
/// is another machine's, or not ours to see.
func listeningProcess(at address: SocketAddress) -> Int32? {
    guard address.isLoopback else { return nil }
    let inodes = Set(["tcp", "tcp6"].flatMap { listeningInodes($0, port: address.port) })
    guard !inodes.isEmpty else { return nil }
    let files = FileManager.default
    for process in (try? files.contentsOfDirectory(atPath: "/proc")) ?? [] {
        guard let number = Int32(process),
            let names = try? files.contentsOfDirectory(atPath: "/proc/\(process)/fd")
        else { continue }
        for name in names {
            let target = try? files.destinationOfSymbolicLink(atPath: "/proc/\(process)/fd/\(name)")
            if let target, inodes.contains(target) { return number }
        }
    }
    return nil
}

private func listeningInodes(_ table: String, port: UInt16) -> [String] {
    guard let text = readWholeFile("/proc/net/\(table)") else { return [] }
    return text.split(separator: "\n").dropFirst().compactMap { line in
        let fields = line.split(separator: " ")
        guard fields.count > 9, fields[3] == "0A", let colon = fields[1].lastIndex(of: ":"),
            UInt16(fields[1][fields[1].index(after: colon)...], radix: 16) == port
        else { return nil }
        return "socket:[\(fields[9])]"
    }
}
