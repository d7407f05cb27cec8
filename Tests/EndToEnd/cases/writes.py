"""Puts (§4.5, §8.4): replacing, deleting, priorities."""

from transcript import case

CASES = [
    case("a put creates missing ancestors", "8.4", """
        A sets /a/b/c/d 1
        A sees / {"a":{"b":{"c":{"d":1}}}}
    """),
    case("a put replaces the whole subtree", "4.5", """
        A sets /a {"x":1,"y":{"z":2}}
        A sets /a {"w":3}
        A sees /a {"w":3}
    """),
    case("a put leaves siblings alone", "4.5", """
        A sets /a {"x":1,"y":2}
        A sets /a/x 5
        A sees /a {"x":5,"y":2}
    """),
    case("a put replaces the priority too", "4.5", """
        A sets /a {".value":1,".priority":5}
        A sets /a 2
        A sees /a 2
    """),
    case("a put of null deletes", "4.5", """
        A sets /a {"x":1,"y":2}
        A sets /a/x null
        A sees /a {"y":2}
        A sets /a null
        A sees / null
    """),
    case("deleting the last leaf prunes upwards, priorities included", "8.4", """
        A sets /a {"b":{"c":1,".priority":2},".priority":1}
        A sets /a/b/c null
        A sees / null
    """),
    case("deleting something absent is ok and changes nothing", "8.4", """
        A sets /a/b/c null
        A sees / null
        A sets /x 1
        A sets /x/y null
        A sees / {"x":1}
    """),
    case("a put below a leaf replaces it and keeps its priority", "8.4", """
        A sets /a {".value":"leaf",".priority":4}
        A sets /a/x 1
        A sees /a {"x":1,".priority":4}
    """),
    case("a put of null below a leaf with a priority keeps the leaf", "8.4", """
        A sets /a {".value":"leaf",".priority":4}
        A sets /a/x null
        A sees /a {".value":"leaf",".priority":4}
    """),
    case("a listener below agrees when a leaf becomes an object", "6.5", """
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a {".value":"leaf",".priority":4}
        A< d {"p":"a","d":{".value":"leaf",".priority":4}}
        W sets /a/x 1
        A< d {"p":"a/x","d":1} | d {"p":"a","d":{"x":1,".priority":4}}
    """),
    case("setPriority on an object keeps its children", "4.5", """
        A sets /a {"x":1}
        A sets /a/.priority 5
        A sees /a {"x":1,".priority":5}
        A sets /a/.priority "text"
        A sees /a {"x":1,".priority":"text"}
    """),
    case("setPriority on a leaf keeps its value", "4.5", """
        A sets /a 1
        A sets /a/.priority "p"
        A sees /a {".value":1,".priority":"p"}
    """),
    case("setPriority null clears it", "4.5", """
        A sets /a {".value":1,".priority":5}
        A sets /a/.priority null
        A sees /a 1
    """),
    case("setPriority on a missing node is refused", "17.2 #19", """
        A> p {"p":"/a/.priority","d":5}
        A< refused
        A sees / null
    """),
    case("setPriority with a boolean is refused", "8.2", """
        A sets /a 1
        A> p {"p":"/a/.priority","d":true}
        A< refused
        A sees /a 1
    """),
    case("setPriority with an object is refused", "8.2", """
        A sets /a 1
        A> p {"p":"/a/.priority","d":{"x":1}}
        A< refused
        A sees /a 1
    """),
    case("a listener gets a new priority", "5.1", """
        W sets /a {"x":1}
        A> q {"p":"/a","h":"LkoDN24bwRWG2p4jGZoe8M/Acf8="}
        A<? d {"p":"a","d":{"x":1}}
        A< ok {}
        W sets /a/.priority 5
        A< d {"p":"a","d":{"x":1,".priority":5}} | d {"p":"a/.priority","d":5}
    """),
    case("a listener of the parent gets a child's new priority", "5.1", """
        A> q {"p":"/a","h":""}
        A< ok {}
        W sets /a/x 1
        A< d {"p":"a/x","d":1}
        W sets /a/x/.priority 5
        A< d {"p":"a/x","d":{".value":1,".priority":5}} | d {"p":"a/x/.priority","d":5}
    """),
    case("the root can be put and deleted", "4.5", """
        A> p {"p":"","d":{"a":1}}
        A< ok
        A sees / {"a":1}
        A> p {"p":"/","d":null}
        A< ok
        A sees / null
    """),
    case("the root can be a leaf with a priority", "8.1", """
        A> q {"p":"/","h":""}
        A< ok {}
        W sets / {".value":"top",".priority":1}
        A< d {"p":"","d":{".value":"top",".priority":1}}
        W sets / null
        A< d {"p":"","d":null}
    """),
    case("a thousand pipelined puts are all there", "6.1", "\n".join(
        [f'A> p {{"p":"/a/k{i}","d":{i}}}' for i in range(1000)] + ["A< ok"] * 1000 + ["B sees /a/k999 999", "B sees /a/k0 0"]
    )),
]
