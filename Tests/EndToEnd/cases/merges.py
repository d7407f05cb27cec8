"""Merges (§4.6, §5.2, §15.5)."""

from pando_client import Closed
from transcript import case

CASES = [
    case("a merge overwrites its entries and leaves siblings", "4.6", """
        A sets /u {"a":1,"b":2}
        A merges /u {"b":3,"c":4}
        A sees /u {"a":1,"b":3,"c":4}
    """),
    case("null entries delete", "4.6", """
        A sets /u {"a":1,"b":2}
        A merges /u {"a":null,"zz":null}
        A sees /u {"b":2}
    """),
    case("an entry replaces its whole location", "4.6", """
        A sets /u {"a":{"x":1,"y":2}}
        A merges /u {"a":{"z":3}}
        A sees /u {"a":{"z":3}}
    """),
    case("entries may be deep", "4.6", """
        A merges /u {"p/q":1,"r/s/t":2}
        A merges /u {"p/q":null,"r/s/u":3}
        A sees /u {"r":{"s":{"t":2,"u":3}}}
    """),
    case("a multi-path merge is one message per listen", "15.5", """
        W sets /users {"u2":{"name":"Bob"}}
        A> q {"p":"/users","h":""}
        A< d {"p":"users","d":{"u2":{"name":"Bob"}}}
        A< ok {}
        A> q {"p":"/index","h":""}
        A< ok {}
        A> m {"p":"/","d":{"users/u1/name":"Ann","users/u2":null,"index/ann":"u1","log/x":1}}
        A<* m {"p":"users","d":{"u1/name":"Ann","u2":null}}
        A<* d {"p":"index/ann","d":"u1"}
        A< ok
    """),
    case("a merge at the listen path is one push", "5.2", """
        A> q {"p":"/at","h":""}
        A< ok {}
        W merges /at {"a/x":1,"b/y":1}
        A< m {"p":"at","d":{"a/x":1,"b/y":1}}
    """),
    case("a merge below the listen path is one push", "6.5", """
        A> q {"p":"/at","h":""}
        A< ok {}
        W merges /at/deep/er {"a":1,"b":2}
        A< m {"p":"at/deep/er","d":{"a":1,"b":2}}
    """),
    case("a merge above is translated to the listen path", "6.5", """
        A> q {"p":"/a/b","h":""}
        A< ok {}
        W merges / {"a":{"b":{"x":1,"y":2},"c":3},"z":1}
        A< d {"p":"a/b","d":{"x":1,"y":2}}
        W merges /a {"b/x":5,"b/w":6,"c":7}
        A< m {"p":"a/b","d":{"x":5,"w":6}}
    """),
    case("an empty merge is ok and says nothing", "4.6", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> m {"p":"/a","d":{}}
        A< ok
        A< nothing
        A sees / null
    """),
    case("a path and its ancestor in one merge are refused", "17.2 #19", """
        A> m {"p":"/a","d":{"x":1,"x/y":2}}
        A< refused
        A sees / null
    """),
    case("a path and its ancestor are refused in either order", "17.2 #19", """
        A> m {"p":"/a","d":{"x/y/z":2,"b":1,"x":{"q":1}}}
        A< refused
        A sees / null
    """),
    case("names with a common beginning are no ancestors", "4.6", """
        A merges /a {"x":1,"xy":2,"x-/z":3}
        A sees /a {"x":1,"xy":2,"x-":{"z":3}}
    """),
    case("a bad entry refuses the whole merge", "4.6", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> m {"p":"/a","d":{"good":1,"also/good":2,"bad.key":3}}
        A< refused
        A< nothing
        A sees / null
    """),
    case("a bad value refuses the whole merge", "4.6", """
        A> m {"p":"/a","d":{"good":1,"bad":{"x$":1}}}
        A< refused
        A sees / null
    """),
    case("the base's own priority stays", "4.6", """
        A sets /a {"x":1,".priority":5}
        A merges /a {"y":2}
        A sees /a {"x":1,"y":2,".priority":5}
    """),
    case("a .priority entry sets the base's priority", "4.6", """
        A sets /a {"x":1}
        A merges /a {".priority":3,"y":2}
        A sees /a {"x":1,"y":2,".priority":3}
    """),
    case("a .priority entry finds a base that the same merge makes", "4.6", """
        A merges /a {".priority":3,"y":2}
        A sees /a {"y":2,".priority":3}
    """),
    case("a deep .priority entry", "4.6", """
        A sets /a {"b":{"c":1}}
        A merges /a {"b/.priority":9,"d":{".value":2,".priority":"x"}}
        A sees /a {"b":{"c":1,".priority":9},"d":{".value":2,".priority":"x"}}
    """),
    case("an entry with arrays", "4.6", """
        A merges /a {"l":[1,null,3]}
        A sees /a {"l":{"0":1,"2":3}}
    """),
    case("a merge that deletes everything prunes the base", "8.4", """
        A sets /a {"b":{"x":1,"y":2}}
        A merges /a/b {"x":null,"y":null}
        A sees / null
    """),
    case("a merge onto a leaf makes it an object", "8.4", """
        A sets /a 5
        A merges /a {"x":1}
        A sees /a {"x":1}
    """),
    case("entry paths may begin with a slash", "4.0", """
        A merges / {"/a/b":1,"/c":2}
        A sees / {"a":{"b":1},"c":2}
    """),
    case("a merge whose d is no object is refused or closes", "4.6", lambda world: refused_or_closed(world)),
    case("one event: two listeners each get one message", "4.6", """
        A> q {"p":"/x","h":""}
        A< ok {}
        B> q {"p":"/","h":""}
        B< ok {}
        W merges / {"x/a":1,"x/b":2,"y":3}
        A< m {"p":"x","d":{"a":1,"b":2}}
        B< m {"p":"","d":{"x/a":1,"x/b":2,"y":3}}
    """),
]


def refused_or_closed(world):
    """The document names no answer for this; either way nothing may be written."""
    connection = world.connect()
    try:
        assert connection.ask("m", {"p": "/a", "d": 5})["s"] != "ok"
    except Closed:
        pass
    assert world.connect().get("/") is None
