"""What a session leaves to be done when it ends (§12, §15.7)."""

from transcript import case

ENDS = ("closes", "is cut", "is reset")

CASES = [
    *[case(f"an onDisconnect put runs when the connection {end}", "12.3", f"""
        B> q {{"p":"/s","h":""}}
        B< ok {{}}
        A> o {{"p":"/s","d":"gone"}}
        A< ok
        B< nothing
        A {end}
        B< d {{"p":"s","d":"gone"}}
    """) for end in ENDS],
    case("presence: put, merge, cancel, then the end", "15.7", """
        A sets /rooms/r1 {"typing":{"u1":true,"u2":true},"left":5}
        B> q {"p":"/status","h":""}
        B< ok {}
        A> o {"p":"/status/u1","d":{"state":"offline","at":{".sv":"timestamp"}}}
        A< ok
        A> om {"p":"/rooms/r1","d":{"typing/u1":null,"left":{".sv":{"increment":1}}}}
        A< ok
        A> oc {"p":"/rooms/r1/left","d":null}
        A< ok
        A> p {"p":"/status/u1","d":{"state":"online"}}
        A< ok
        B< d {"p":"status/u1","d":{"state":"online"}}
        A is cut
        B< d {"p":"status/u1","d":{"state":"offline","at":"@t"}}
        B sees /rooms/r1 {"typing":{"u2":true},"left":5}
    """),
    case("several operations are one event for a listener", "12.3", """
        A sets /b {"c":1,"d":2}
        B> q {"p":"/b","h":""}
        B< d {"p":"b","d":{"c":1,"d":2}}
        B< ok {}
        A> o {"p":"/b/c","d":9}
        A> o {"p":"/b/d","d":null}
        A> om {"p":"/b","d":{"e":5,"f/g":6}}
        A< ok
        A< ok
        A< ok
        A is cut
        B< m {"p":"b","d":{"c":9,"d":null,"e":5,"f/g":6}}
        B< nothing
    """),
    case("an onDisconnect of null deletes", "12.1", """
        A sets /s {"x":1}
        A> o {"p":"/s/x","d":null}
        A< ok
        A is cut
        eventually /s null
    """),
    case("an onDisconnect merge leaves siblings", "12.1", """
        A sets /u {"a":1,"b":2}
        A> om {"p":"/u","d":{"b":3,"c/d":4}}
        A< ok
        A is cut
        eventually /u {"a":1,"b":3,"c":{"d":4}}
    """),
    case("a later put at the same path replaces the earlier one", "12.1", """
        A> o {"p":"/s","d":1}
        A> o {"p":"/s","d":2}
        A< ok
        A< ok
        A is cut
        eventually /s 2
    """),
    case("a put above replaces what is queued below", "12.1", """
        A> o {"p":"/s/x","d":1}
        A> o {"p":"/s","d":{"y":2}}
        A< ok
        A< ok
        A is cut
        eventually /s {"y":2}
    """),
    case("a put below a queued put becomes part of it", "12.1", """
        A sets /s {"old":1}
        A> o {"p":"/s","d":{"y":2,"z":3}}
        A> o {"p":"/s/y","d":{"deep":true}}
        A< ok
        A< ok
        A is cut
        eventually /s {"y":{"deep":true},"z":3}
    """),
    case("cancel removes what is queued at the path and below", "12.1", """
        A sets /s 0
        A> o {"p":"/s/a","d":1}
        A> o {"p":"/s/b","d":1}
        A> o {"p":"/t","d":"ran"}
        A> oc {"p":"/s","d":null}
        A< ok
        A< ok
        A< ok
        A< ok
        A is cut
        eventually /t "ran"
        B sees /s 0
    """),
    case("cancel of one entry leaves the others", "12.1", """
        A> o {"p":"/oc/a","d":1}
        A> o {"p":"/oc/b","d":1}
        A> oc {"p":"/oc/a","d":null}
        A< ok
        A< ok
        A< ok
        A is cut
        eventually /oc {"b":1}
    """),
    case("cancel below a queued put cuts that part out", "12.1", """
        A sets /s {"x":"old","y":"old","w":"old"}
        A> o {"p":"/s","d":{"x":1,"y":2}}
        A> oc {"p":"/s/x","d":null}
        A< ok
        A< ok
        A is cut
        eventually /s/y 2
        B sees /s {"x":"old","y":2,"w":"old"}
    """),
    case("cancel of nothing is ok", "12.1", """
        A> oc {"p":"/never","d":null}
        A< ok
    """),
    case("cancelling the root empties the queue", "12.1", """
        A> o {"p":"/a","d":1}
        A> om {"p":"/b","d":{"c":1}}
        A> oc {"p":"/","d":null}
        A> o {"p":"/z","d":1}
        A< ok
        A< ok
        A< ok
        A< ok
        A is cut
        eventually / {"z":1}
    """),
    case("increments resolve when the operation runs", "17.2 #17", """
        A sets /c 5
        A> o {"p":"/c","d":{".sv":{"increment":10}}}
        A< ok
        B sets /c 100
        A is cut
        eventually /c 110
    """),
    case("one timestamp for the whole batch", "12.3", """
        B> q {"p":"/s","h":""}
        B< ok {}
        A> o {"p":"/s/a","d":{".sv":"timestamp"}}
        A> om {"p":"/s","d":{"b":{".sv":"timestamp"},"c/d":{".sv":"timestamp"}}}
        A< ok
        A< ok
        A is cut
        B< m {"p":"s","d":{"a":"@t","b":"@t","c/d":"@t"}}
    """),
    case("an onDisconnect put with a priority", "12.1", """
        A> o {"p":"/s","d":{".value":1,".priority":2}}
        A< ok
        A is cut
        eventually /s {".value":1,".priority":2}
    """),
    case("an onDisconnect setPriority", "12.1", """
        A sets /s 1
        A> o {"p":"/s/.priority","d":7}
        A< ok
        A is cut
        eventually /s {".value":1,".priority":7}
    """),
    case("the queue belongs to its connection", "12.1", """
        A> o {"p":"/s","d":"A"}
        A< ok
        B> o {"p":"/t","d":"B"}
        B< ok
        B is cut
        eventually /t "B"
        C sees /s null
        A is cut
        eventually /s "A"
    """),
    case("the queue runs once", "12.3", """
        A> o {"p":"/c","d":{".sv":{"increment":1}}}
        A< ok
        A is cut
        eventually /c 1
        B opens
        B closes
        C sees /c 1
    """),
    case("requests before the end come first", "12.3", """
        A> o {"p":"/s","d":"offline"}
        A> p {"p":"/s","d":"online"}
        A> p {"p":"/t","d":1}
        A closes
        eventually /t 1
        eventually /s "offline"
    """),
    case("a refused operation is not queued", "12.2", """
        A> o {"p":"/a.b","d":1}
        A< refused
        A> om {"p":"/s","d":{"x":1,"bad$":2}}
        A< refused
        A> o {"p":"/ok","d":1}
        A< ok
        A is cut
        eventually / {"ok":1}
    """),
    case("a reconnect that names its old session ends it first", "12.5", """
        B> q {"p":"/status","h":""}
        B< ok {}
        A> o {"p":"/status","d":"offline"}
        A< ok
        A sets /status "online"
        B< d {"p":"status","d":"online"}
        N opens ls=A
        N> p {"p":"/status","d":"online again"}
        N< ok
        B< d {"p":"status","d":"offline"}
        B< d {"p":"status","d":"online again"}
        B< nothing
    """),
    case("an unknown previous session is ignored", "12.5", lambda world: unknown_previous_session(world)),
    case("a previous session of another namespace is left alone", "12.5", lambda world: foreign_previous_session(world)),
    case("a merge with {} in onDisconnect is ok and does nothing", "12.1", """
        A> om {"p":"/a","d":{}}
        A< ok
        A> o {"p":"/z","d":1}
        A< ok
        A is cut
        eventually / {"z":1}
    """),
]


def unknown_previous_session(world):
    connection = world.connect(ls="nobody-has-this-id")
    connection.must("p", {"p": "/a", "d": 1})
    assert connection.get("/a") == 1


def foreign_previous_session(world):
    """`ls` proves nothing: both connections must name the same namespace."""
    mine, stranger_ns = world.connect(), world.ns + "-other"
    mine.must("o", {"p": "/s", "d": "gone"})
    stranger = world.connect(ns=stranger_ns, ls=mine.session)
    stranger.must("p", {"p": "/x", "d": 1})
    mine.must("p", {"p": "/alive", "d": 1})
    assert world.connect().get("/") == {"alive": 1}
