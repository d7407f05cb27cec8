import PandoTree
import Testing

@testable import PandoRules

@Test(
    arguments: [
        // path          index             has it   because
        ("/", .child("top"), true, "at the root"),
        ("/", .child("h"), false, "not one of another location"),
        ("/dinos", .child("h"), true, "one of a list"),
        ("/dinos", .child("dim/w"), true, "a child path"),
        ("/dinos", .child("dim"), false, "not a part of one"),
        ("/dinos", .child("w"), false, "nor its end"),
        ("/dinos", .child("x/y"), true, "slashes around a path are ignored"),
        ("/dinos", .value, false, "`.value` has to be named"),
        ("/dinos/rex", .child("h"), false, "an index is for one location, not those below"),
        ("/scores", .value, true, "by value, as a string"),
        ("/scores", .child("h"), false, "by value only"),
        ("/users/ann/posts", .child("date"), true, "below a wildcard"),
        ("/users/bob/posts", .child("date"), true, "for each key that the wildcard matches"),
        ("/users/ann/me/posts", .child("date"), false, "a wildcard matches one key only"),
        ("/users/posts", .child("date"), false, "and not none"),
        ("/users/ann", .child("name"), true, "at the wildcard itself"),
        ("/users/admin", .child("name"), false, "a literal child hides the wildcard"),
        ("/users/admin/posts", .child("date"), false, "with all that is below"),
        ("/users/admin/posts", .child("rank"), true, "and has its own"),
        ("/nowhere/at/all", .child("h"), false, "no rules there"),
        ("/nowhere", .key, true, "keys need none"),
        ("/nowhere", .priority, true, "an index by priority always exists"),
        ("/odd", .child("ok"), true, "beside names that cannot be an index"),
        ("/odd", .value, false, "none of them became an index"),
    ] as [(Path, Index, Bool, String)])
func indexes(path: Path, index: Index, expected: Bool, reason: String) throws {
    let rules = try rules(
        """
        { ".indexOn": "top",
          "dinos": { ".indexOn": ["h", "dim/w", "/x//y/"] },
          "scores": { ".indexOn": ".value" },
          "odd": { ".indexOn": ["", "/", ".key", ".priority", "a.b", "$x", ".valu", "ok"] },
          "users": {
            "$uid": { ".indexOn": ["name"], "posts": { ".indexOn": ["date"] } },
            "admin": { "posts": { ".indexOn": ["rank", ".value"] } } } }
        """)
    #expect(rules.hasIndex(index, at: path) == expected, "\(reason)")
}
