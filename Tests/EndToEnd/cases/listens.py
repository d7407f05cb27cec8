"""Listens, unlistens, gets; what is pushed where, and in which order (§4.2–4.4, §5, §6, §15.2, §15.3)."""

import tree
from rest_client import Rest
from transcript import Player, case

DECLARED = {"rules": {".read": True, ".write": True, "list": {".indexOn": ["n", "g+n"]}, "values": {".indexOn": ".value"}}}
WARNING = {"w": ["no_index"]}


def a_wider_listen_serves_narrow_ones(world):
    """A default listen and one of its descendants: each write may be sent once or twice, never with a stale state."""
    client, writer = world.client(), world.connect()
    inner = client.listen("/a/b")
    outer = client.listen("/a")
    for value in range(20):
        writer.must("p", {"p": "/a/b/c", "d": value})
    client.sync()
    for listen, path in ((inner, ("c",)), (outer, ("b", "c"))):
        assert tree.get(listen.node, path).value == 19


def orders_that_are_not_declared(world):
    """A filtered listen by an order that the loaded rules do not declare gets its data, and the warning."""
    Rest(world.port, world.ns).put_rules(DECLARED)
    client = world.connect()
    for number, (path, query, answer) in enumerate([
        ("list", {"i": "n", "sp": 1}, {}), ("list", {"i": "m", "sp": 1}, WARNING), ("list", {"i": "n/x", "sp": 1}, WARNING),
        ("list", {"i": ".value", "sp": 1}, WARNING), ("values", {"i": ".value", "l": 2}, {}), ("other", {"i": "n", "l": 2}, WARNING),
        ("list/below", {"i": "n", "l": 2}, WARNING), ("list", {"i": ".key", "sp": "a"}, {}), ("list", {"l": 2}, {}),
        ("list", {"w": {"g": 1}, "i": "n", "l": 2}, {}), ("list", {"w": {"g": 1}, "i": "m", "l": 2}, WARNING),
    ], 1):
        assert client.must("q", {"p": path, "q": query, "t": number, "h": ""}) == answer, (path, query)
    assert client.must("q", {"p": "list", "h": ""}) == {}, "a default listen has no order"
    assert client.must("g", {"p": "list", "q": {"i": "m", "sp": 1}}) is None, "a get is answered without"


def an_administrator_is_warned_too(world):
    Rest(world.port, world.ns).put_rules(DECLARED)
    Player(world).play("""
        W> gauth {"cred":"owner"}
        W< ok {"auth":null,"expires":null}
        W sets /list {"a":{"m":1},"b":{"m":2}}
        A> gauth {"cred":"owner"}
        A< ok {"auth":null,"expires":null}
        A> q {"p":"/list","q":{"i":"m","l":1,"vf":"r"},"t":1,"h":""}
        A< d {"p":"list","d":{"b":{"m":2}},"t":1}
        A< ok {"w":["no_index"]}
    """)


CASES = [
    case("an order that the rules do not declare gets a warning", "4.2", orders_that_are_not_declared),
    case("an administrator is warned of it, too", "4.2", an_administrator_is_warned_too),
    case("without rules there is nothing to warn of", "4.2", """
        A> q {"p":"/list","q":{"i":"m","l":1,"vf":"r"},"t":1,"h":""}
        A< ok {}
    """),
    case("an empty place with hash '' gets only the ok", "17.2 #3", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A< nothing
    """),
    case("an empty place without a hash gets null, then the ok", "17.2 #4", """
        A> q {"p":"/a"}
        A< d {"p":"a","d":null}
        A< ok {}
    """),
    case("an empty root without a hash gets null at path ''", "4.2", """
        A> q {"p":"/"}
        A< d {"p":"","d":null}
        A< ok {}
    """),
    case("an empty place with a stale hash gets null", "4.2", """
        A> q {"p":"/a","h":"gIphxiFGusLh2VwSNVKSvNu90m4="}
        A< d {"p":"a","d":null}
        A< ok {}
    """),
    case("data comes before the ok", "6.2", """
        W sets /room {"m1":{"text":"hi"}}
        A> q {"p":"/room","h":""}
        A< d {"p":"room","d":{"m1":{"text":"hi"}}}
        A< ok {}
    """),
    case("the right hash gets no data", "4.2", """
        W sets /x {"a":1}
        A> q {"p":"/x","h":"gIphxiFGusLh2VwSNVKSvNu90m4="}
        A< ok {}
        A< nothing
    """),
    case("a listen at the root pushes with path ''", "5", """
        W sets /a 1
        A> q {"p":"/","h":""}
        A< d {"p":"","d":{"a":1}}
        A< ok {}
        W sets /b 2
        A< d {"p":"b","d":2}
    """),
    case("the root replaced under a listen at the root", "5", """
        A> q {"p":"/","h":""}
        A< ok {}
        A> p {"p":"/","d":{"z":1}}
        A< d {"p":"","d":{"z":1}}
        A< ok
        A> p {"p":"/","d":null}
        A< d {"p":"","d":null}
        A< ok
    """),
    case("the writer's echo precedes its ok", "17.2 #8", """
        A> q {"p":"/room/a","h":""}
        A< ok {}
        A> p {"p":"/room/a","d":1}
        A< d {"p":"room/a","d":1}
        A< ok
    """),
    case("set with the writer listening: values, priorities, setPriority, remove", "15.2", """
        A> q {"p":"/room/a","h":""}
        A< ok {}
        A> p {"p":"/room/a","d":{"text":"hi","at":{".sv":"timestamp"}}}
        A< d {"p":"room/a","d":{"text":"hi","at":"@t"}}
        A< ok
        A> p {"p":"/room/a/text","d":{".value":"yo",".priority":2}}
        A< d {"p":"room/a/text","d":{".value":"yo",".priority":2}}
        A< ok
        A> p {"p":"/room/a/.priority","d":5}
        A< d {"p":"room/a","d":{".priority":5,"at":"@t","text":{".value":"yo",".priority":2}}} | d {"p":"room/a/.priority","d":5}
        A< ok
        A> p {"p":"/room/a","d":null}
        A< d {"p":"room/a","d":null}
        A< ok
    """),
    case("listen to data, another changes it, get, unlisten", "15.3", """
        W sets /room {"m1":{"text":"hi"}}
        W sets /list {"k1":{"a":{"b":1}},"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}
        A> q {"p":"/room","h":""}
        A< d {"p":"room","d":{"m1":{"text":"hi"}}}
        A< ok {}
        W sets /room/m2 {"text":"yo"}
        A< d {"p":"room/m2","d":{"text":"yo"}}
        W sets / {"room":{"m3":1},"list":{"k1":{"a":{"b":1}},"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}}
        A< d {"p":"room","d":{"m3":1}}
        A> g {"p":"/zzz","q":{}}
        A< ok null
        A> g {"p":"/list","q":{"l":2,"vf":"r","i":"a/b"}}
        A< ok {"k4":{"a":{"b":7}},"k9":{"a":{"b":9}}}
        A> n {"p":"/room"}
        A< ok
        W sets /room/m4 1
        A< nothing
    """),
    case("a reconnect with the cached hash and a pending put", "15.3", """
        W sets /x {"a":1}
        A> q {"p":"/x","h":"gIphxiFGusLh2VwSNVKSvNu90m4="}
        A> p {"p":"/x/b","d":2}
        A< ok {}
        A< d {"p":"x/b","d":2}
        A< ok
    """),
    case("the same listen twice gives two oks and one push a write", "17.2 #7", """
        A> q {"p":"/a","h":""}
        A> q {"p":"/a","h":""}
        A< ok {}
        A< ok {}
        W sets /a 1
        A< d {"p":"a","d":1}
        A< nothing
    """),
    case("a repeated listen with a stale hash gets the data again", "4.2", """
        W sets /a 1
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":1}
        A< ok {}
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":1}
        A< ok {}
        A> q {"p":"/a","h":"YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="}
        A< ok {}
    """),
    case("the same filtered listen twice gives one push a write", "4.2", """
        W sets /a {"x":1}
        A> q {"p":"/a","q":{"l":5,"vf":"l"},"t":3,"h":""}
        A< d {"p":"a","d":{"x":1},"t":3}
        A< ok {}
        A> q {"p":"/a","q":{"l":5,"vf":"l"},"t":3,"h":"LkoDN24bwRWG2p4jGZoe8M/Acf8="}
        A<? d {"p":"a","d":{"x":1},"t":3}
        A< ok {}
        W sets /a/y 2
        A< d {"p":"a/y","d":2,"t":3}
        A< nothing
    """),
    case("after unlisten there is a fresh start", "4.3", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> n {"p":"/a"}
        A< ok
        W sets /a 1
        A< nothing
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":1}
        A< ok {}
        W sets /a 2
        A< d {"p":"a","d":2}
    """),
    case("listening twice and unlistening once ends the listen", "4.2", """
        A> q {"p":"/a","h":""}
        A> q {"p":"/a","h":""}
        A> n {"p":"/a"}
        A< ok {}
        A< ok {}
        A< ok
        W sets /a 1
        A< nothing
    """),
    case("unlisten of something unknown is ok", "4.3", """
        A> n {"p":"/never"}
        A< ok
        A> n {"p":"/never","q":{"l":1,"vf":"l"},"t":9}
        A< ok
    """),
    case("unlisten of one tag leaves the other and the default listen", "4.3", """
        W sets /a {"x":1}
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":{"x":1}}
        A< ok {}
        A> q {"p":"/a","q":{"l":1,"vf":"l"},"t":1,"h":""}
        A< d {"p":"a","d":{"x":1},"t":1}
        A< ok {}
        A> q {"p":"/a","q":{"l":1,"vf":"r"},"t":2,"h":""}
        A< d {"p":"a","d":{"x":1},"t":2}
        A< ok {}
        A> n {"p":"/a","q":{"l":1,"vf":"l"},"t":1}
        A< ok
        W sets /a/x 2
        A<* d {"p":"a/x","d":2}
        A<* d {"p":"a/x","d":2,"t":2}
        A< nothing
    """),
    case("the query of an unlisten matches whatever its key order", "4.3", """
        A> q {"p":"/a","q":{"l":1,"vf":"l","i":"n","sp":5},"t":1,"h":""}
        A< ok {}
        A> n {"p":"/a","q":{"vf":"l","sp":5,"i":"n","l":1},"t":1}
        A< ok
        W sets /a/x {"n":7}
        A< nothing
    """),
    case("a write far away is not pushed", "6.5", """
        A> q {"p":"/a/b","h":""}
        A< ok {}
        W sets /a/c 1
        W sets /b 2
        W sets /a/bb 3
        A< nothing
    """),
    case("a write above is translated to the listen path", "6.5", """
        A> q {"p":"/a/b","h":""}
        A< ok {}
        W sets /a {"b":{"x":1},"c":2}
        A< d {"p":"a/b","d":{"x":1}}
        W sets / {"a":{"b":{"x":2}},"z":1}
        A< d {"p":"a/b","d":{"x":2}}
        W sets /a null
        A< d {"p":"a/b","d":null}
    """),
    case("a write above that does not change the listen is not pushed", "6.5", """
        W sets /a {"b":1,"c":1}
        A> q {"p":"/a/b","h":"YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="}
        A< ok {}
        W sets /a {"b":1,"c":2}
        A<? d {"p":"a/b","d":1}
        A< nothing
    """),
    case("a leaf above replaces the object below", "6.5", """
        W sets /a {"b":1}
        A> q {"p":"/a/b","h":"YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="}
        A< ok {}
        W sets /a 5
        A< d {"p":"a/b","d":null}
    """),
    case("deleting the last child deletes the listened parent", "8.4", """
        W sets /a {"b":{"c":1}}
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":{"b":{"c":1}}}
        A< ok {}
        W sets /a/b/c null
        A< d {"p":"a/b/c","d":null} | d {"p":"a","d":null} | d {"p":"a/b","d":null}
        A sees /a null
    """),
    case("a value is pushed pruned", "6.5", """
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a/x {"b":{},"c":null,"d":[],"e":1}
        A< d {"p":"a/x","d":{"e":1}}
    """),
    case("a put equal to the old value may stay silent", "6.3", """
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a 1
        A< d {"p":"a","d":1}
        W sets /a 1
        A<? d {"p":"a","d":1}
        A< nothing
    """),
    case("nested default listens get one state, sent at most twice", "6.4", """
        A> q {"p":"/a/b","h":""}
        A< ok {}
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a/b/c 1
        A< d {"p":"a/b/c","d":1}
        A<? d {"p":"a/b/c","d":1}
        A< nothing
    """),
    case("the inner listen lives on when the outer one ends", "6.4", """
        A> q {"p":"/a/b","h":""}
        A> q {"p":"/a","h":""}
        A> n {"p":"/a"}
        A< ok {}
        A< ok {}
        A< ok
        W sets /a/b/c 1
        W sets /a/z 1
        A< d {"p":"a/b/c","d":1}
        A< nothing
    """),
    case("a wider and a narrower listen never see a stale state last", "6.4", a_wider_listen_serves_narrow_ones),
    case("many tagged listens at one path get a push each", "6.4", """
        W sets /a {"k1":1,"k2":2,"k3":3}
        A> q {"p":"/a","q":{"l":1,"vf":"l"},"t":1,"h":""}
        A< d {"p":"a","d":{"k1":1},"t":1}
        A< ok {}
        A> q {"p":"/a","q":{"l":1,"vf":"r"},"t":2,"h":""}
        A< d {"p":"a","d":{"k3":3},"t":2}
        A< ok {}
        A> q {"p":"/a","q":{"i":".value","sp":2},"t":3,"h":""}
        A< d {"p":"a","d":{"k2":2,"k3":3},"t":3}
        A< ok {}
        W sets /a {"k1":9,"k3":9}
        A<* d {"p":"a","d":{"k1":9},"t":1} | d {"p":"a/k1","d":9,"t":1}
        A<* d {"p":"a","d":{"k3":9},"t":2} | d {"p":"a/k3","d":9,"t":2}
        A<* d {"p":"a","d":{"k1":9,"k3":9},"t":3} | m {"p":"a","d":{"k1":9,"k3":9,"k2":null},"t":3}
        A< nothing
    """),
    case("a tagged listen below a default one gets its own push", "6.4", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> q {"p":"/a/b","q":{"l":2,"vf":"l"},"t":5,"h":""}
        A< ok {}
        W sets /a/b/x 1
        A<* d {"p":"a/b/x","d":1}
        A<* d {"p":"a/b/x","d":1,"t":5}
        A< nothing
    """),
    case("tags belong to their connection", "6.4", """
        W sets /a {"x":1}
        A> q {"p":"/a","q":{"l":1,"vf":"l"},"t":1,"h":""}
        A< d {"p":"a","d":{"x":1},"t":1}
        A< ok {}
        B> q {"p":"/a","q":{"l":1,"vf":"r"},"t":1,"h":""}
        B< d {"p":"a","d":{"x":1},"t":1}
        B< ok {}
        W sets /a/z 2
        B< m {"p":"a","d":{"x":null,"z":2},"t":1}
        A< nothing
    """),
    case("a closed connection takes its listens along", "3.4", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A closes
        B> q {"p":"/a","h":""}
        B< ok {}
        W sets /a 1
        B< d {"p":"a","d":1}
    """),
    case("pushes keep commit order across writers", "6.1", """
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a 1
        V sets /a 2
        W sets /a 3
        V sets /a 4
        A< d {"p":"a","d":1}
        A< d {"p":"a","d":2}
        A< d {"p":"a","d":3}
        A< d {"p":"a","d":4}
    """),
    case("listen and put pipelined: initial state, then the echo", "6.1", """
        W sets /a {"x":1}
        A> q {"p":"/a","h":""}
        A> p {"p":"/a/y","d":2}
        A> n {"p":"/a"}
        A> p {"p":"/a/z","d":3}
        A< d {"p":"a","d":{"x":1}}
        A< ok {}
        A< d {"p":"a/y","d":2}
        A< ok
        A< ok
        A< ok
    """),
    case("a listen gets priorities in export form", "8.3", """
        W sets /a {"x":{".value":1,".priority":"p"},"y":{"z":true,".priority":2.5},".priority":7}
        A> q {"p":"/a","h":""}
        A< d {"p":"a","d":{"x":{".value":1,".priority":"p"},"y":{"z":true,".priority":2.5},".priority":7}}
        A< ok {}
    """),
    case("a get makes no listen", "4.4", """
        W sets /a 1
        A> g {"p":"/a","q":{}}
        A< ok 1
        W sets /a 2
        A< nothing
    """),
    case("a get of an absent place is null", "4.4", """
        A> g {"p":"/a/b/c","q":{}}
        A< ok null
    """),
    case("a get below a leaf is null", "4.4", """
        W sets /a 1
        A sees /a/b null
    """),
    case("a get has priorities in export form", "4.4", """
        W sets /a {"x":{".value":1,".priority":1},".priority":"top"}
        A sees /a {"x":{".value":1,".priority":1},".priority":"top"}
        A sees /a/x {".value":1,".priority":1}
    """),
    case("a get with only an index answers everything", "4.4", """
        W sets /a {"x":{"b":2},"y":{"b":1}}
        A sees /a where {"i":"b"} is {"x":{"b":2},"y":{"b":1}}
    """),
    case("a get sees the connection's own earlier put", "6.1", """
        A> p {"p":"/a","d":1}
        A> g {"p":"/a","q":{}}
        A> p {"p":"/a","d":2}
        A> g {"p":"/a","q":{}}
        A< ok
        A< ok 1
        A< ok
        A< ok 2
    """),
    case("a refused write is not pushed", "6.3", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> p {"p":"/a/b","d":{"x.y":1}}
        A< refused
        A< nothing
        A sees /a null
    """),
    case("hundred listens on one connection each get their own write", "6.4", "\n".join(
        [f'A> q {{"p":"/a/k{i}","h":""}}' for i in range(100)] + ["A< ok {}"] * 100
        + [f"W sets /a/k{i} {i}" for i in range(100)] + [f'A< d {{"p":"a/k{i}","d":{i}}}' for i in range(100)]
    )),
]
