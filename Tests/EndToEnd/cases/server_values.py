"""Server values: timestamps and increments (§10)."""

from transcript import case


def increments(name, before, operand, after):
    """`before` (JSON text, or None for absent) plus an increment by `operand` gives `after`."""
    first = "" if before is None else f"W sets /c {before}"
    return case(f"increment: {name}", "10", f"""
        {first}
        A> q {{"p":"/c"}}
        A< d {{"p":"c","d":{before or 'null'}}}
        A< ok {{}}
        A> p {{"p":"/c","d":{{".sv":{{"increment":{operand}}}}}}}
        A< d {{"p":"c","d":{after}}}
        A< ok
        B sees /c {after}
    """)


def many_writers(world):
    """Increments of many connections, pipelined, add up."""
    connections = [world.connect() for _ in range(8)]
    numbers = [[one.request("p", {"p": "/c", "d": {".sv": {"increment": 1}}}) for _ in range(50)] for one in connections]
    for connection, asked in zip(connections, numbers):
        assert connection.response(asked[-1])["s"] == "ok"
    assert connections[0].get("/c") == 400


CASES = [
    increments("integer on integer", "5", "3", "8"),
    increments("a negative operand", "5", "-7", "-2"),
    increments("by a double that is whole", "1", "1.0", "2"),
    increments("a fraction on an integer", "2", "0.5", "2.5"),
    increments("a fraction that makes a whole", "2.5", "0.5", "3"),
    increments("on a double", "0.1", "0.2", "0.30000000000000004"),
    increments("on nothing", None, "3", "3"),
    increments("on a string", '"x"', "3", "3"),
    increments("on a boolean", "true", "3", "3"),
    increments("on an object", '{"x":1}', "3", "3"),
    increments("2^53 keeps its digits", "9007199254740992", "1", "9007199254740993"),
    increments("up to the largest integer", "9223372036854775806", "1", "9223372036854775807"),
    increments("over the largest integer becomes a double", "9223372036854775807", "1", "9223372036854775808.0"),
    increments("under the smallest integer becomes a double", "-9223372036854775808", "-1000000", "-9223372036855775808.0"),
    increments("on a leaf with a priority drops the priority", '{".value":5,".priority":2}', "1", "6"),
    case("a timestamp is the server's time", "10", """
        A> p {"p":"/t","d":{".sv":"timestamp"}}
        A< ok
        A sees /t "@t"
    """),
    case("all timestamps of one write are equal", "10", """
        A> q {"p":"/a","h":""}
        A< ok {}
        A> p {"p":"/a","d":{"x":{".sv":"timestamp"},"y":{"z":{".sv":"timestamp"}},"l":[{".sv":"timestamp"}]}}
        A< d {"p":"a","d":{"x":"@t","y":{"z":"@t"},"l":{"0":"@t"}}}
        A< ok
    """),
    case("all timestamps of one merge are equal", "10", """
        A> m {"p":"/a","d":{"x":{".sv":"timestamp"},"y/z":{".sv":"timestamp"}}}
        A< ok
        A sees /a {"x":"@t","y":{"z":"@t"}}
    """),
    case("a timestamp inside .value with a priority", "10", """
        A> p {"p":"/a","d":{".value":{".sv":"timestamp"},".priority":3}}
        A< ok
        A sees /a {".value":"@t",".priority":3}
    """),
    case("a timestamp as priority", "10", """
        A> p {"p":"/a","d":{"x":1,".priority":{".sv":"timestamp"}}}
        A< ok
        A sees /a {"x":1,".priority":"@t"}
    """),
    case("a timestamp by setPriority", "10", """
        A sets /a 1
        A> p {"p":"/a/.priority","d":{".sv":"timestamp"}}
        A< ok
        A sees /a {".value":1,".priority":"@t"}
    """),
    case("the worked example: increment and timestamp in a merge, echo resolved", "10", """
        A sets /c 5
        A> q {"p":"/","h":""}
        A< d {"p":"","d":{"c":5}}
        A< ok {}
        A> m {"p":"/","d":{"c":{".sv":{"increment":3}},"at":{".sv":"timestamp"}}}
        A< m {"p":"","d":{"c":8,"at":"@t"}}
        A< ok
    """),
    case("increments in one merge each read their own place", "10", """
        A sets /a {"x":1,"y":10}
        A merges /a {"x":{".sv":{"increment":1}},"y":{".sv":{"increment":1}},"z":{".sv":{"increment":1}}}
        A sees /a {"x":2,"y":11,"z":1}
    """),
    case("a put over a subtree still reads the old value below", "10", """
        A sets /a {"n":5,"gone":1}
        A sets /a {"n":{".sv":{"increment":2}},"new":true}
        A sees /a {"n":7,"new":true}
    """),
    case("an increment as priority starts from the current priority", "10", """
        A sets /a {".value":1,".priority":5}
        A sets /a/.priority {".sv":{"increment":2}}
        A sees /a {".value":1,".priority":7}
    """),
    case("an increment as priority of something without one", "10", """
        A sets /a 1
        A sets /a/.priority {".sv":{"increment":2}}
        A sees /a {".value":1,".priority":2}
    """),
    case("an increment with a new priority", "10", """
        A sets /a 5
        A sets /a {".value":{".sv":{"increment":2}},".priority":"p"}
        A sees /a {".value":7,".priority":"p"}
    """),
    case("an unknown server value is refused", "10", """
        A> p {"p":"/a","d":{".sv":"nonsense"}}
        A< refused
        A> p {"p":"/a","d":{"x":{".sv":{"multiply":2}}}}
        A< refused
        A> p {"p":"/a","d":{".sv":{"increment":"1"}}}
        A< refused
        A> p {"p":"/a","d":{".sv":null,"x":{".sv":5}}}
        A< refused
        A sees / null
    """),
    case("an increment that overflows in a literal is refused", "8.5", """
        A> raw {"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":{".sv":{"increment":1e400}}}}}
        B sees / null
        A closes
    """),
    case("increments of eight pipelining writers add up", "10", many_writers),
]
