import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

private let user = Credential(authVariable: #"{"uid":"u1"}"#)

// The numbers are those of the worked cases (rules §12).
@Test(
    arguments: [
        // rules                                           path       allowed   because
        ("{}", "/x", false, "3: no rule"),
        (#"{".read":true}"#, "/", true, "at the root"),
        (#"{".read":true}"#, "/a/b/c", true, "a grant cascades down"),
        (#"{".read":"true"}"#, "/a", true, "a string says the same"),
        (#"{".read":" true\n"}"#, "/a", true, "with space around it"),
        (#"{".read":false}"#, "/", false, "no grant"),
        (#"{".read":false,"a":{".read":true}}"#, "/a/x", true, "a false above forbids nothing"),
        (
            #"{"a":{".read":true,"secret":{".read":false}}}"#, "/a/secret", true,
            "7: a deeper false cannot revoke"
        ),
        (#"{"list":{"$id":{".read":true}}}"#, "/list", false, "8: nothing on the way to the list grants"),
        (#"{"list":{"$id":{".read":true}}}"#, "/list/7/x", true, "each of its children is granted"),
        (
            #"{"items":{"$id":{".read":"true"},"fixed":{".read":"false"}}}"#, "/items/fixed", false,
            "9: a literal hides $id"
        ),
        (
            #"{"items":{"fixed":{},"$id":{".read":"true"}}}"#, "/items/fixed", false,
            "9: in either order, without rules too"
        ),
        (#"{"items":{"fixed":{},"$id":{".read":"true"}}}"#, "/items/other", true, "9: any other child"),
        (#"{"a":{".read":true}}"#, "/b", false, "beside the grant"),
        (#"{".write":true,".validate":true}"#, "/a", false, "a read grant does not permit writes"),
        (#"{".read":"data.val() > 1"}"#, "/a", false, "an expression with an error does not grant"),
        (#"{".read":"data.val() > 1","a":{".read":true}}"#, "/a", true, "29: and the next one is asked"),
        (#"{".read":"false || true"}"#, "/a", true, "a constant expression"),
        (#"{".read":"true // x"}"#, "/a", true, "with a comment"),
    ] as [(String, Path, Bool, String)])
func reading(node: String, path: Path, allowed: Bool, reason: String) throws {
    let access = Access.loaded(try rules(node))
    #expect(access.allowsRead(at: path, query: nil, in: scope(.anonymous)) == allowed, "\(reason)")
    #expect(access.allowsRead(at: path, query: nil, in: scope(user)) == allowed, "\(reason)")
    #expect(
        access.allowsRead(at: path, query: nil, in: scope(.admin)), "58: rules are not for administrators")
}

@Test(
    arguments: [
        // rules, before, path, new value, allowed, because
        (#"{".read":true}"#, "null", "/a", "1", false, "a write grant does not permit reads"),
        (#"{".write":true}"#, "null", "/a", "1", true, "a grant cascades down"),
        (
            #"{".write":false,"a":{".write":true,"b":{".write":false}}}"#, "null", "/a/b", "1", true,
            "6: no false takes it back"
        ),
        (#"{"a":{".validate":true}}"#, "null", "/a", "1", false, "59: validate never grants"),
        (
            #"{".write":"data.val() > 1"}"#, "null", "/a", "1", false,
            "an expression with an error does not grant"
        ),
        (
            #"{".write":true,"a":{".validate":"data.val() > 1"}}"#, "null", "/a", "1", false,
            "an expression with an error does not validate"
        ),
        (
            #"{".write":true,"a":{".validate":"true"}}"#, "null", "/a", "1", true,
            "a constant expression validates"
        ),
        (
            #"{"p":{".write":true,"title":{".validate":true},"$o":{".validate":false}}}"#, "null", "/p/title",
            "1", true,
            "10: a literal hides the wildcard"
        ),
        (
            #"{"p":{".write":true,"title":{".validate":true},"$o":{".validate":false}}}"#, "null", "/p/zz",
            "1", false, "10: any other"
        ),
        (
            #"{"p":{".write":true,"title":{".validate":true},"$o":{".validate":false}}}"#, "null", "/p",
            #"{"title":{"x":1}}"#, true,
            "10: and inside a value"
        ),
        (
            #"{"p":{".write":true,"title":{".validate":true},"$o":{".validate":false}}}"#, "null", "/p",
            #"{"title":1,"zz":1}"#, false,
            "10: each child counts"
        ),
        (
            #"{".write":true,"p":{".validate":false}}"#, "null", "/p/sub/k", "1", false,
            "11: an ancestor's validate"
        ),
        (#"{".write":true,".validate":false}"#, "null", "/p/sub/k", "1", false, "11: the root's"),
        (
            #"{".write":true,"n":{"$i":{".validate":false}}}"#, #"{"n":{"1":{"a":1,"b":1}}}"#, "/n/1", "null",
            true, "14: deleting"
        ),
        (
            #"{".write":true,"n":{"$i":{".validate":false}}}"#, #"{"n":{"1":{"a":1,"b":1}}}"#, "/n/1", "{}",
            true, "15: the same"
        ),
        (
            #"{".write":true,"n":{"$i":{".validate":false}}}"#, #"{"n":{"1":{"a":1,"b":1}}}"#, "/n/1/b",
            "null", false,
            "16: an ancestor that stays is asked"
        ),
        (
            #"{".write":true,"par":{".validate":false}}"#, #"{"par":{"c":1}}"#, "/par/c", "null", true,
            "17: one that goes is not"
        ),
        (
            #"{".write":true,"par":{".validate":false}}"#, #"{"par":{"c":1,"d":1}}"#, "/par/c", "null", false,
            "18: it stays"
        ),
        (
            #"{".write":true,"r":{"tag":{".validate":false}}}"#, #"{"r":{"tag":1}}"#, "/r/title", "1", true,
            "19: a sibling is not carried"
        ),
        (
            #"{".write":true,"r":{"tag":{".validate":false}}}"#, #"{"r":{"tag":1}}"#, "/r",
            #"{"title":1,"tag":1}"#, false,
            "20: carried, even unchanged"
        ),
        (
            #"{".write":true,"r":{"tag":{".validate":false}}}"#, #"{"r":{"tag":1}}"#, "/r", #"{"title":1}"#,
            true, "what goes is not asked"
        ),
        (
            #"{".write":true,"a":{"$x":{"b":{"$y":{".validate":false}}}}}"#, "null", "/",
            #"{"a":{"1":{"b":2},"2":{"c":{"d":1}}}}"#, true,
            "rules for locations without data"
        ),
        (
            #"{".write":true,"a":{"$x":{"b":{"$y":{".validate":false}}}}}"#, "null", "/",
            #"{"a":{"1":{"b":2},"2":{"b":{"d":1}}}}"#, false,
            "a rule deep below the location"
        ),
        (
            #"{".write":true,"$a":{".validate":false},"s":{}}"#, "null", "/s", "[1,2]", true,
            "children without rules are not validated"
        ),
        (
            #"{"s":{".write":true,"$i":{".validate":true},"2":{".validate":false}}}"#, "null", "/s", "[1,2]",
            true, "52: indexes are keys"
        ),
        (
            #"{"s":{".write":true,"$i":{".validate":true},"2":{".validate":false}}}"#, "null", "/s",
            "[1,2,3]", false, "52: the third one"
        ),
        (
            #"{".write":true,"a":{".validate":false}}"#, "null", "/a", #"{".value":1,".priority":2}"#, false,
            "children below a priority are validated"
        ),
        (
            #"{".write":true,"a":{"b":{".validate":false}}}"#, "null", "/a", #"{"b":1,".priority":2}"#, false,
            "a priority at an object"
        ),
    ] as [(String, String, Path, String, Bool, String)])
func writing(node: String, before: String, path: Path, value: String, allowed: Bool, reason: String) throws {
    let access = Access.loaded(try rules(node))
    var after = try data(before)
    after.set(try data(value), at: path)
    #expect(access.allowsWrite(at: [path], after: after, in: scope(.anonymous)) == allowed, "\(reason)")
    #expect(
        access.allowsWrite(at: [path], after: after, in: scope(.admin)),
        "58: rules are not for administrators")
}

@Test(
    arguments: [
        // paths                 allowed   because
        (["/a/b", "/z"], false, "62: one of them has no grant"),
        (["/a/b"], true, "62: where the client stood is not written"),
        (["/a/b", "/a/c"], true, "each has one"),
        (["/a/b", "/a/bad"], false, "one of them is not valid"),
        (["/a/bad", "/a/b"], false, "in either order"),
        ([], true, "nothing is written"),
    ] as [([Path], Bool, String)])
func writesToSeveralPaths(paths: [Path], allowed: Bool, reason: String) throws {
    let access = Access.loaded(try rules(#"{"a":{".write":true,"bad":{".validate":false}}}"#))
    var after = Node.empty
    for path in paths { after.set(.integer(1), at: path) }
    #expect(access.allowsWrite(at: paths, after: after, in: scope(user)) == allowed, "\(reason)")
}

@Test func withoutRules() {
    for path: Path in ["/", "/a/b"] {
        #expect(
            Access.open.allowsRead(at: path, query: nil, in: scope(.anonymous)))
        #expect(Access.open.allowsWrite(at: [path], after: .boolean(true), in: scope(.anonymous)))
        for credential in [Credential.anonymous, user] {
            #expect(!Access.locked.allowsRead(at: path, query: nil, in: scope(credential)))
            #expect(!Access.locked.allowsWrite(at: [path], after: .boolean(true), in: scope(credential)))
        }
        #expect(
            Access.locked.allowsRead(at: path, query: nil, in: scope(.admin)))
        #expect(Access.locked.allowsWrite(at: [path], after: .boolean(true), in: scope(.admin)))
    }
}
