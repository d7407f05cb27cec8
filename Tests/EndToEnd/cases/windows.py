"""The pushes of a filtered listen as its window moves (§7.5, §15.4)."""

from transcript import case

BY_PRIORITY = '"q":{"l":2,"vf":"r"},"t":1'
FIRST_BY_N = '"q":{"i":"n","l":2,"vf":"l"},"t":1'

CASES = [
    case("the whole story of a limitToLast(2) by score", "15.4", """
        W sets /top {"p1":{"score":10},"p2":{"score":30},"p3":{"score":20}}
        A> q {"p":"/top","q":{"l":2,"vf":"r","i":"score"},"t":1,"h":""}
        A< d {"p":"top","d":{"p2":{"score":30},"p3":{"score":20}},"t":1}
        A< ok {}
        W sets /top/p1/score 40
        A< m {"p":"top","d":{"p3":null,"p1":{"score":40}},"t":1}
        W sets /top/p2/score 50
        A< d {"p":"top/p2/score","d":50,"t":1} | d {"p":"top/p2","d":{"score":50},"t":1}
        W sets /top/p2 null
        A< m {"p":"top","d":{"p2":null,"p3":{"score":20}},"t":1}
        W sets /top/p4 {"score":5}
        A< nothing
        W sets /top/p1/score 1
        A< m {"p":"top","d":{"p1":null,"p4":{"score":5}},"t":1}
        W sets /top null
        A< d {"p":"top","d":null,"t":1}
        A> n {"p":"/top","q":{"l":2,"vf":"r","i":"score"},"t":1}
        A< ok
        W sets /top/p9 {"score":1}
        A< nothing
    """),
    case("a child enters a full window and evicts the boundary child", "7.5", f"""
        W sets /q {{"a":1,"b":2}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"a":1,"b":2}},"t":1}}
        A< ok {{}}
        W sets /q/c 3
        A< m {{"p":"q","d":{{"a":null,"c":3}},"t":1}}
    """),
    case("a child below the window enters when one leaves", "7.5", f"""
        W sets /q {{"Z":9,"a":1,"b":2}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"a":1,"b":2}},"t":1}}
        A< ok {{}}
        W sets /q/b null
        A< m {{"p":"q","d":{{"b":null,"Z":9}},"t":1}}
    """),
    case("a window that is not full loses a child without a newcomer", "7.5", f"""
        W sets /q {{"a":1,"b":2}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"a":1,"b":2}},"t":1}}
        A< ok {{}}
        W sets /q/b null
        A< d {{"p":"q/b","d":null,"t":1}}
    """),
    case("a window that is not full gains a child without a leaver", "7.5", f"""
        W sets /q {{"b":2}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"b":2}},"t":1}}
        A< ok {{}}
        W sets /q/a 1
        A< d {{"p":"q/a","d":1,"t":1}}
    """),
    case("limitToFirst(2) by child: a leaver lets a hidden sibling in", "7.5", f"""
        W sets /q {{"a":{{"n":1}},"b":{{"n":2}},"c":{{"n":3}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}},"b":{{"n":2}}}},"t":1}}
        A< ok {{}}
        W sets /q/a/n 10
        A< m {{"p":"q","d":{{"a":null,"c":{{"n":3}}}},"t":1}}
    """),
    case("a hidden child enters: it is sent whole, not just its change", "7.5", f"""
        W sets /q {{"a":{{"n":1}},"b":{{"n":2}},"c":{{"n":3,"x":1,"deep":{{"er":true}}}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}},"b":{{"n":2}}}},"t":1}}
        A< ok {{}}
        W sets /q/c/n 0
        A< m {{"p":"q","d":{{"b":null,"c":{{"n":0,"x":1,"deep":{{"er":true}}}}}},"t":1}}
    """),
    case("a change inside the window that keeps its place", "7.5", f"""
        W sets /q {{"a":{{"n":1}},"b":{{"n":2}},"c":{{"n":3}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}},"b":{{"n":2}}}},"t":1}}
        A< ok {{}}
        W sets /q/a/x "new"
        A< d {{"p":"q/a/x","d":"new","t":1}} | d {{"p":"q/a","d":{{"n":1,"x":"new"}},"t":1}}
        W sets /q/a/n 1.5
        A< d {{"p":"q/a/n","d":1.5,"t":1}} | d {{"p":"q/a","d":{{"n":1.5,"x":"new"}},"t":1}}
    """),
    case("a change outside the window is not sent", "7.5", f"""
        W sets /q {{"a":{{"n":1}},"b":{{"n":2}},"c":{{"n":3}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}},"b":{{"n":2}}}},"t":1}}
        A< ok {{}}
        W sets /q/c/x 1
        W sets /q/c/n 7
        W sets /q/d {{"n":9}}
        W sets /q/c null
        W sets /elsewhere 1
        A< nothing
    """),
    case("a pure range: in, inside, out", "7.5", """
        W sets /q {"a":{"n":1},"b":{"n":5}}
        A> q {"p":"/q","q":{"i":"n","sp":4,"ep":6},"t":2,"h":""}
        A< d {"p":"q","d":{"b":{"n":5}},"t":2}
        A< ok {}
        W sets /q/a/n 4.5
        A< d {"p":"q/a","d":{"n":4.5},"t":2}
        W sets /q/b/n 6
        A< d {"p":"q/b/n","d":6,"t":2} | d {"p":"q/b","d":{"n":6},"t":2}
        W sets /q/b/n 7
        A< d {"p":"q/b","d":null,"t":2}
        W sets /q/a null
        A< d {"p":"q/a","d":null,"t":2} | d {"p":"q","d":null,"t":2}
    """),
    case("a merge that moves several children is one push", "7.5", """
        W sets /q {"a":{"n":1},"b":{"n":2},"c":{"n":3},"d":{"n":4}}
        A> q {"p":"/q","q":{"i":"n","l":2,"vf":"r"},"t":1,"h":""}
        A< d {"p":"q","d":{"c":{"n":3},"d":{"n":4}},"t":1}
        A< ok {}
        W merges /q {"a/n":10,"b/n":11,"c/x":1}
        A< m {"p":"q","d":{"c":null,"d":null,"a":{"n":10},"b":{"n":11}},"t":1}
    """),
    case("the location replaced: the new window, whole or as a difference", "7.5", f"""
        W sets /q {{"a":{{"n":1}},"b":{{"n":2}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}},"b":{{"n":2}}}},"t":1}}
        A< ok {{}}
        W sets /q {{"x":{{"n":5}},"y":{{"n":6}},"z":{{"n":7}}}}
        A< d {{"p":"q","d":{{"x":{{"n":5}},"y":{{"n":6}}}},"t":1}} | m {{"p":"q","d":{{"a":null,"b":null,"x":{{"n":5}},"y":{{"n":6}}}},"t":1}}
    """),
    case("an ancestor replaced: sent at the query path, never above", "0.1 #8", f"""
        W sets /p {{"q":{{"a":{{"n":1}}}},"other":1}}
        A> q {{"p":"/p/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"p/q","d":{{"a":{{"n":1}}}},"t":1}}
        A< ok {{}}
        W sets / {{"p":{{"q":{{"b":{{"n":2}}}}}}}}
        A< d {{"p":"p/q","d":{{"b":{{"n":2}}}},"t":1}} | m {{"p":"p/q","d":{{"a":null,"b":{{"n":2}}}},"t":1}}
        W sets /p null
        A< d {{"p":"p/q","d":null,"t":1}} | d {{"p":"p/q/b","d":null,"t":1}}
    """),
    case("the location becomes a leaf: the window is empty", "7.4", f"""
        W sets /q {{"a":{{"n":1}}}}
        A> q {{"p":"/q",{FIRST_BY_N},"h":""}}
        A< d {{"p":"q","d":{{"a":{{"n":1}}}},"t":1}}
        A< ok {{}}
        W sets /q 5
        A< d {{"p":"q","d":null,"t":1}} | d {{"p":"q/a","d":null,"t":1}}
        W sets /q/b {{"n":3}}
        A< d {{"p":"q/b","d":{{"n":3}},"t":1}} | d {{"p":"q","d":{{"b":{{"n":3}}}},"t":1}}
    """),
    case("a priority change moves a child out of the window", "7.5", f"""
        W sets /q {{"a":{{".value":1,".priority":1}},"b":{{".value":2,".priority":2}},"c":{{".value":3,".priority":3}}}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"b":{{".value":2,".priority":2}},"c":{{".value":3,".priority":3}}}},"t":1}}
        A< ok {{}}
        W sets /q/c/.priority 0
        A< m {{"p":"q","d":{{"c":null,"a":{{".value":1,".priority":1}}}},"t":1}}
    """),
    case("the location's own priority is not part of the window", "7.4", f"""
        W sets /q {{"a":1}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"a":1}},"t":1}}
        A< ok {{}}
        W sets /q/.priority 9
        A< nothing
    """),
    case("a window over an empty place fills", "7.5", f"""
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< ok {{}}
        W sets /q/a 1
        A< d {{"p":"q/a","d":1,"t":1}} | d {{"p":"q","d":{{"a":1}},"t":1}}
        W sets /q/b 2
        A< d {{"p":"q/b","d":2,"t":1}}
        W sets /q/c 3
        A< m {{"p":"q","d":{{"a":null,"c":3}},"t":1}}
    """),
    case("a stale window hash gets the whole window", "9.4", f"""
        W sets /q {{"a":1,"b":2,"c":3}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":"AUZnXhNqrfbznYVxcCvNpzpjvTU="}}
        A< d {{"p":"q","d":{{"b":2,"c":3}},"t":1}}
        A< ok {{}}
    """),
    case("the writer's own window: the echo precedes the ok", "6.3", f"""
        A sets /q {{"a":1,"b":2}}
        A> q {{"p":"/q",{BY_PRIORITY},"h":""}}
        A< d {{"p":"q","d":{{"a":1,"b":2}},"t":1}}
        A< ok {{}}
        A> p {{"p":"/q/c","d":3}}
        A< m {{"p":"q","d":{{"a":null,"c":3}},"t":1}}
        A< ok
    """),
    case("a window by key slides over integers in numeric order", "7.3", """
        W sets /q {"9":"nine","10":"ten"}
        A> q {"p":"/q","q":{"i":".key","l":2,"vf":"r"},"t":1,"h":""}
        A< d {"p":"q","d":{"9":"nine","10":"ten"},"t":1}
        A< ok {}
        W sets /q/11 "eleven"
        A< m {"p":"q","d":{"9":null,"11":"eleven"},"t":1}
        W sets /q/2 "two"
        A< nothing
    """),
    case("a window by value", "7.3", """
        W sets /q {"a":3,"b":1,"c":2}
        A> q {"p":"/q","q":{"i":".value","l":2,"vf":"l"},"t":1,"h":""}
        A< d {"p":"q","d":{"b":1,"c":2},"t":1}
        A< ok {}
        W sets /q/b 9
        A< m {"p":"q","d":{"b":null,"a":3},"t":1}
        W sets /q/a false
        A< d {"p":"q/a","d":false,"t":1}
    """),
]
