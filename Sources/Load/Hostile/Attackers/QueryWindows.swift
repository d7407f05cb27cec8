import PandoBytes

/// Listens to thousands of query windows of one node, in which another client writes. A server takes as many
/// of these listens as one connection may have with a query at one location, and refuses the others.
struct ManyWindows: Attacker {
    static let windowCount = 50_000
    /// Each changes the first child of all query windows that begin behind the other children.
    static let writeCount = 2

    let name = "many-windows"
    let summary = "50 000 filtered listens of one client at a node where another writes"
    let needs: Set<PreparedData> = [.windows]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = PreparedData.windows.path(at: site)
        let listens = realtimeBurst(of: Self.windowCount) { output, number in
            output.append(realtimeRequest: "q", number: number, path: path) {
                $0.append(#","q":{"i":".value","sp":"#)
                $0.append(decimal: Int64(number))
                $0.append(#","sin":true,"l":1,"vf":"l"},"t":"#)
                $0.append(decimal: Int64(number))
                $0.append(#","h":"""#)
            }
        }
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            output.append(realtimeRequest: "p", number: number, path: "\(path)/last") {
                $0.append(#","d":"#)
                $0.append(decimal: Int64(Self.windowCount + number))
            }
        }
        return [
            AttackRole(
                connections: 1, opening: .webSocket, burst: listens, requests: (Self.windowCount, "listens"),
                reading: .everything, next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }
}

/// Listens of many clients to windows that are all different, at a large node where each write changes all of
/// them.
///
/// A write may update only some of them itself; the others fall behind, and another thread computes them. The
/// recipients of windows once counted for nothing: where 300 clients had 1000 listens each, a small write
/// took 0.3 s.
struct WindowsBehind: Attacker {
    static let connectionCount = 50
    /// As many as a connection may have at one location.
    static let windowCount = 1000
    static let writeCount = 2

    let name = "windows-behind"
    let summary = "50 clients with 1000 windows each of 100 000 children, and writes that change all"
    let needs: Set<PreparedData> = [.children100k]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = PreparedData.children100k.path(at: site)
        let bursts = (0..<Self.connectionCount).map { connection in
            realtimeBurst(of: Self.windowCount) { output, number in
                output.append(realtimeRequest: "q", number: number, path: path) {
                    $0.append(
                        window: number, order: "x", from: Int64(connection * Self.windowCount + number),
                        last: 1 + number % 3)
                }
            }
        }
        // The last child: it is in every window, before the write and after it.
        let count = PreparedData.children100k.childCount
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            output.append(realtimeRequest: "p", number: number, path: "\(path)/c\(count - 1)/x") {
                $0.append(#","d":"#)
                $0.append(decimal: Int64(count + number))
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, bursts: bursts,
                requests: (Self.windowCount, "listens"), reading: .everything, next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }
}

/// Begins windows with large limits at a node of one child, which then grows and shrinks by one write each.
///
/// A listen was once charged with what its window had when it began: one connection with hundreds of them,
/// and a write of one megabyte, made a server hold 1.5 GB beyond every limit.
struct GrowingWindows: Attacker {
    static let connectionCount = 10
    static let windowCount = 500
    static let childCount = 20_000

    let name = "growing-windows"
    let summary = "10 clients with 500 windows each of a node that grows to 20 000 children and shrinks again"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = "\(site.root)/growing"
        let bursts = (0..<Self.connectionCount).map { connection in
            realtimeBurst(of: Self.windowCount) { output, number in
                output.append(realtimeRequest: "q", number: number, path: path) {
                    $0.append(
                        window: number, order: "x", from: -Int64(connection * Self.windowCount + number),
                        last: 2 * Self.childCount)
                }
            }
        }
        let writes = realtimeBurst(of: 2) { output, number in
            output.append(realtimeRequest: "p", number: number, path: path) {
                $0.append(#","d":"#)
                $0.append(children: 0..<(number == 1 ? 1 : Self.childCount))
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, bursts: bursts,
                requests: (Self.windowCount, "listens"), reading: .everything, next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (2, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }
}

/// Listens by orders that no other client uses, each of which would need an index of its own, while another
/// client writes what some of them sort by: half of the clients at a large node, where each listen is much
/// work, half at an empty one, where thousands of listens begin at once.
///
/// Orders by `members/UID` are honest: there are as many as users. Once orders were searched one by one: a
/// listen took 86 µs, the end of the sessions froze all databases for 5.8 s, and a write there took 0.3 s.
struct ManyOrders: Attacker {
    static let connectionCount = 50
    static let orderCount = 1000
    static let writeCount = 20

    let name = "many-orders"
    let summary = "50 clients with 1000 listens each by different orders, half of them at 100 000 children"
    let needs: Set<PreparedData> = [.children100k]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let paths = [PreparedData.children100k.path(at: site), "\(site.root)/orders"]
        let bursts = (0..<Self.connectionCount).map { connection in
            realtimeBurst(of: Self.orderCount) { output, number in
                output.append(realtimeRequest: "q", number: number, path: paths[connection % 2]) {
                    $0.append(
                        window: number, order: "members/u\(connection * Self.orderCount + number)", from: 1,
                        last: 10)
                }
            }
        }
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            let member = number * Self.connectionCount * Self.orderCount / Self.writeCount
            output.append(
                realtimeRequest: "p", number: number,
                path: "\(paths[number % 2])/c\(number)/members/u\(member)"
            ) {
                $0.append(#","d":{".sv":"timestamp"}"#)
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, bursts: bursts,
                requests: (Self.orderCount, "listens"), reading: .everything, next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }
}

extension [UInt8] {
    /// Appends a query by a child from a number on, limited to the last children, and the tag and the empty
    /// hash of its listen, beginning with a comma (realtime §7).
    fileprivate mutating func append(window tag: Int, order: String, from start: Int64, last limit: Int) {
        append(#","q":{"i":""#)
        append(utf8: order)
        append(#"","sp":"#)
        append(decimal: start)
        append(#","sin":true,"l":"#)
        append(decimal: Int64(limit))
        append(#","vf":"r"},"t":"#)
        append(decimal: Int64(tag))
        append(#","h":"""#)
    }
}
