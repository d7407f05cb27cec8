import PandoBytes
import Testing

@testable import PandoTree

@Suite("gradual release") struct GradualReleaseTests {
    /// A tree of `count` children with two leaves each, every hundredth of them with a priority.
    private func tree(_ count: Int) -> Node {
        .children(
            Children(
                ascending: (0..<count).map { number in
                    let node = Node.object(
                        Children(ascending: [
                            .init(key: "n", node: .integer(Int64(number))),
                            .init(key: "s", node: .string("a text that is longer than a node")),
                        ]))
                    return .init(
                        key: Key(unchecked: Text("k\(1_000_000 + number)")),
                        node: number % 100 == 0 ? node.with(priority: .number(1)) : node)
                }))
    }

    @Test("each part is bounded, and all parts are everything", arguments: [0, 1, 31, 33, 5000])
    func parts(count: Int) {
        var release = GradualRelease([tree(count), .integer(1), tree(count)])
        var steps = 0
        var freedCount = 0
        while case let freed = release.releaseSome(100), freed > 0 {
            #expect(freed < 100 + Children.pageCapacity)
            freedCount += freed
            steps += 1
        }
        // Each child has two, and there are pages of children.
        #expect(freedCount >= 6 * count && freedCount <= 7 * count + 3)
        #expect(steps <= freedCount / 100 + 1)
    }

    @Test("what a snapshot holds stays")
    func snapshots() {
        let node = tree(1000)
        let snapshot = node
        var release = GradualRelease([node])
        while release.releaseSome(10) > 0 {}
        #expect(snapshot == tree(1000))
    }
}
