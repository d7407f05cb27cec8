"""Transactional puts (§11, §15.6)."""

from transcript import case

ONE, TWO, FIVE, HUNDRED = (
    "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=", "WtSt2Xo3L0JtPuArzQHofPrZOuU=", "w28swksk9+tXf5jEdS9R5oSFAv8=", "5PG1TllwFpsPMPTAduN1cJllS2g=",
)

CASES = [
    case("the right hash writes", "17.2 #16", f"""
        W sets /c 5
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< ok
        A sees /c 6
    """),
    case("a wrong hash writes nothing", "17.2 #16", f"""
        W sets /c 5
        A> p {{"p":"/c","d":6,"h":"{ONE}"}}
        A< datastale
        A sees /c 5
    """),
    case("hash '' on an empty place writes", "17.2 #16", """
        A> p {"p":"/c","d":6,"h":""}
        A< ok
        A sees /c 6
    """),
    case("hash '' on a filled place is stale", "17.2 #16", """
        W sets /c 5
        A> p {"p":"/c","d":6,"h":""}
        A< datastale
        A sees /c 5
    """),
    case("a hash on an empty place is stale", "11.2", f"""
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< datastale
        A sees /c null
    """),
    case("a hash that is no hash is stale", "11.2", """
        W sets /c 5
        A> p {"p":"/c","d":6,"h":"nonsense"}
        A< datastale
        A sees /c 5
    """),
    case("a conflict: the other's write arrives before datastale", "15.6", f"""
        W sets /c 5
        A> q {{"p":"/c","h":"{FIVE}"}}
        A< ok {{}}
        W sets /c 100
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< d {{"p":"c","d":100}}
        A< datastale
        A> p {{"p":"/c","d":101,"h":"{HUNDRED}"}}
        A< d {{"p":"c","d":101}}
        A< ok
    """),
    case("a cold cache: both puts sent back to back", "11.3", f"""
        W sets /c 5
        A> q {{"p":"/c","h":""}}
        A> p {{"p":"/c","d":1,"h":""}}
        A< d {{"p":"c","d":5}}
        A< ok {{}}
        A< datastale
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< d {{"p":"c","d":6}}
        A< ok
    """),
    case("the hash covers children and priorities", "11.2", """
        W sets /c {"B1":{".value":1,".priority":2},"B2":{".value":2,".priority":1},"B3":3}
        A> p {"p":"/c","d":1,"h":"9q4+gOobE1ozTZyb85m/iDxoYzY="}
        A< ok
    """),
    case("the hash covers the node's own priority", "11.2", """
        W sets /c {".priority":2,"A":2}
        A> p {"p":"/c","d":1,"h":"1xHri2Z3/K1NzjMObwiYwEfgo18="}
        A< ok
        W sets /d {".value":2,".priority":1}
        A> p {"p":"/d","d":3,"h":"WtSt2Xo3L0JtPuArzQHofPrZOuU="}
        A< datastale
        A> p {"p":"/d","d":3,"h":"iiz9CIvYWkKdETTpjVFBJNx1SiI="}
        A< ok
        A sees /d 3
    """),
    case("a transaction may delete", "11.1", f"""
        W sets /c 5
        A> p {{"p":"/c","d":null,"h":"{FIVE}"}}
        A< ok
        A sees /c null
    """),
    case("a transaction at the root", "11.1", """
        W sets / {"a":1}
        A> p {"p":"/","d":{"a":2},"h":"gIphxiFGusLh2VwSNVKSvNu90m4="}
        A< ok
        A sees / {"a":2}
    """),
    case("a transaction that turns a leaf into a tree", "11.1", f"""
        W sets /c 5
        A> p {{"p":"/c","d":{{"x":{{"y":1}}}},"h":"{FIVE}"}}
        A< ok
        A sees /c {{"x":{{"y":1}}}}
    """),
    case("placeholders in a transaction; the hash concerns the old data", "10", f"""
        W sets /c 5
        A> p {{"p":"/c","d":{{".sv":{{"increment":2}}}},"h":"{FIVE}"}}
        A< ok
        A sees /c 7
    """),
    case("without a covering listen the stale answer has the current state", "11.2", f"""
        W sets /c 5
        A> p {{"p":"/c","d":6,"h":""}}
        A< datastale {{"value":5,"hash":"{FIVE}"}}
    """),
    case("the current state is in export form with its hash", "11.2", """
        W sets /c {"k":{".value":"v",".priority":-1}}
        A> p {"p":"/c","d":6,"h":""}
        A< datastale {"value":{"k":{".value":"v",".priority":-1}},"hash":"u9oVXH3kjI6L9+cO6Z0GF0SVWvY="}
    """),
    case("the current state of an empty place", "11.2", f"""
        A> p {{"p":"/c","d":6,"h":"{ONE}"}}
        A< datastale {{"value":null,"hash":""}}
    """),
    case("under a covering listen the stale answer is bare", "11.2", f"""
        W sets /c 5
        A> q {{"p":"/c","h":"{FIVE}"}}
        A< ok {{}}
        A> p {{"p":"/c","d":6,"h":""}}
        A< datastale bare
    """),
    case("a listen above covers the path", "11.2", """
        W sets /a {"n":1}
        A> q {"p":"/a","h":"bk8dIh8Akxn4Q4uTVwWtl4dxNyg="}
        A< ok {}
        A> p {"p":"/a/n","d":6,"h":""}
        A< datastale bare
    """),
    case("a listen below does not cover the path", "11.2", f"""
        W sets /a {{"n":1}}
        A> q {{"p":"/a/n","h":"{ONE}"}}
        A< ok {{}}
        A> p {{"p":"/a","d":6,"h":""}}
        A< datastale {{"value":{{"n":1}},"hash":"bk8dIh8Akxn4Q4uTVwWtl4dxNyg="}}
    """),
    case("another connection's listen covers nothing here", "11.2", f"""
        W sets /c 5
        B> q {{"p":"/c","h":"{FIVE}"}}
        B< ok {{}}
        A> p {{"p":"/c","d":6,"h":""}}
        A< datastale {{"value":5,"hash":"{FIVE}"}}
    """),
    case("cv asks for the current state in spite of a listen", "11.2", f"""
        W sets /c 5
        A> q {{"p":"/c","h":"{FIVE}"}}
        A< ok {{}}
        A> p {{"p":"/c","d":6,"h":"","cv":true}}
        A< datastale {{"value":5,"hash":"{FIVE}"}}
    """),
    case("a client without a listen succeeds with the value of datastale", "11.2", f"""
        W sets /c 5
        A> p {{"p":"/c","d":6,"h":"{ONE}"}}
        A< datastale {{"value":5,"hash":"{FIVE}"}}
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< ok
    """),
    case("an invalid value is refused even with the right hash", "8.6", f"""
        W sets /c 5
        A> p {{"p":"/c","d":{{"a.b":1}},"h":"{FIVE}"}}
        A< refused
        A sees /c 5
    """),
    case("numbers hash by value: 5 and 5.0", "8.5", f"""
        W> raw {{"t":"d","d":{{"r":1,"a":"p","b":{{"p":"/c","d":5.0}}}}}}
        W< raw {{"t":"d","d":{{"r":1,"b":{{"s":"ok","d":""}}}}}}
        A> p {{"p":"/c","d":6,"h":"{FIVE}"}}
        A< ok
    """),
]
