import PandoBytes
import PandoRules
import PandoTree

/// The rules of a chat: members read and write, messages have a shape.
struct RulesCase {
    let effort: MicroEffort

    init(_ effort: MicroEffort) { self.effort = effort }

    private static let document = #"""
        {"rules": {"rooms": {"$room": {
          ".read": "auth != null && root.child('rooms').child($room).child('members').child(auth.uid).val() == true",
          "messages": {"$message": {
            ".write": "auth != null && root.child('rooms').child($room).child('members').child(auth.uid).val() == true",
            ".validate": "newData.hasChildren(['text', 'at']) && newData.child('text').isString() &&
              newData.child('text').val().length <= 1000 && newData.child('text').val().matches(/^[^<>]+$/)"
          }}
        }}}}
        """#

    /// - Throws: When the rules do not load.
    func timings() throws -> [Timing] {
        let access = Access.loaded(try Ruleset(loading: Array(Self.document.utf8)))
        var tree = Node.empty
        for room in 0..<100 {
            for member in 0..<50 {
                tree.set(.boolean(true), at: Path(trusted: "rooms/r\(room)/members/user\(member)"))
            }
        }
        let message = try Node(
            json: Array(#"{"text":"Shall we meet at the old oak at noon?","at":1760000000000}"#.utf8).rawSpan)
        let messages = Path(trusted: "rooms/r42/messages")
        let path = Path(trusted: "rooms/r42/messages/-OabcdefghijklmnopqR")
        let written = [path]
        var after = tree
        after.set(message, at: path)
        let member = RuleScope(
            credential: Credential(authVariable: #"{"uid":"user7","provider":"password","token":{}}"#),
            milliseconds: 1_760_000_000_000, root: tree)
        var stranger = member
        stranger.credential = Credential(authVariable: #"{"uid":"nobody","provider":"password","token":{}}"#)
        return [
            Timing("rules, read granted", effort) {
                access.allowsRead(at: messages, query: nil, in: member)
            },
            Timing("rules, read denied", effort) {
                !access.allowsRead(at: messages, query: nil, in: stranger)
            },
            Timing("rules, message written", effort) {
                access.allowsWrite(at: written, after: after, in: member)
            },
            Timing("rules, message denied", effort) {
                !access.allowsWrite(at: written, after: after, in: stranger)
            },
        ]
    }
}
