"""Server values and priorities (§6)."""

import time

from exchange import row
from rest_client import Rest
from transcript import CLOCK_TOLERANCE

UNRECOGNIZED = "unrecognized server value"


def one_time_a_request(world):
    """Every timestamp of one request is the same, near the clock, also as a priority and inside a patch."""
    rest = Rest(world.port, world.ns)
    stamp = {".sv": "timestamp"}
    echo = rest.put("/a", {"b": stamp, "c": {"d": stamp}, "p": {".value": 1, ".priority": stamp}}).json()
    found = rest.get("/a", "format=export")
    times = {found["b"], found["c"]["d"], found["p"][".priority"]}
    assert len(times) == 1, found
    assert abs(times.pop() - time.time() * 1000) < CLOCK_TOLERANCE, found
    assert (echo["b"], echo["c"]) == (found["b"], found["c"]), "the echo has the resolved values"
    rest.patch("/a", {"x": stamp, "y/z": stamp})
    found = rest.get("/a")
    assert found["x"] == found["y"]["z"] >= found["b"], found


def posted_time(world):
    rest = Rest(world.port, world.ns)
    name = rest.must("POST", "/l", {"at": {".sv": "timestamp"}}).json()["name"]
    assert abs(rest.get(f"/l/{name}/at") - time.time() * 1000) < CLOCK_TOLERANCE


def increment(before, by, after, name=None):
    return row(name or f"{before} plus {by} is {after}", "6.1", f"""
        given /n {before}
        PUT /n.json {{".sv":{{"increment":{by}}}}}
        < 200 matches {after}
        GET /n.json
        < 200 matches {after}
    """)


INCREMENTS = [
    increment(4, 2, "6"),
    increment(4, -10, "-6"),
    increment(1, 0.5, r"1\.5"),
    increment(1.5, 1.5, "3"),
    increment("null", 7, "7", "an increment of nothing is the increment"),
    increment('"text"', 7, "7", "an increment of a text is the increment"),
    increment("true", 7, "7", "an increment of a boolean is the increment"),
    increment('{"a":1}', 7, "7", "an increment of an object is the increment"),
    increment(9223372036854775806, 1, "9223372036854775807", "integers stay exact up to 2^63-1"),
    increment(9223372036854775807, 1, r"9223372036854775808(\.0)?|9\.223372036854776e\+?18|9223372036854776000",
              "an increment over 2^63-1 goes on as a double"),
    row("increments in one patch each read what was there before it", "6.1", """
        given /a {"x":1}
        PATCH /a.json {"x":{".sv":{"increment":1}},"y":{".sv":{"increment":5}},"z/w":{".sv":{"increment":-1}}}
        < 200
        now /a {"x":2,"y":5,"z":{"w":-1}}
    """),
    row("a put echoes what the server values became", "6.1", """
        given /n 40
        PUT /n.json {".sv":{"increment":2}}
        < 200 42
    """),
]

# A client that may write a location and not read it learns nothing of it by a response (§2.1).
WRITE_ONLY = 'rules {"rules":{".write":true,"open":{".read":true},"own":{"mine":{".read":true}}}}'
UNREADABLE = [
    row("an increment that may not be read is answered as it was sent", "2.1", f"""
        {WRITE_ONLY}
        given /n 41
        PUT /n.json {{".sv":{{"increment":0}}}}
        < 200 {{".sv":{{"increment":0}}}}
        PUT /n.json {{".sv":{{"increment":1.5}}}}
        < 200 {{".sv":{{"increment":1.5}}}}
        PUT /n.json {{".sv":"timestamp"}}
        < 200 {{".sv":"timestamp"}}
        PUT /n/.priority.json {{".sv":{{"increment":3}}}}
        < 200 {{".sv":{{"increment":3}}}}
        PUT /n.json {{".sv":{{"increment":0}}}} | X-Firebase-ETag: true
        < 200 {{".sv":{{"increment":0}}}}
        < no ETag
        PUT /n.json?print=silent {{".sv":{{"increment":0}}}} | X-Firebase-ETag: true
        < 204 empty
        < no ETag
        PUT /n.json {{".sv":{{"increment":0}}}} | if-match: null_etag
        < 401 error Permission denied
    """),
    row("server values inside a put, as priorities and beside them, are answered as they were sent", "2.1", f"""
        {WRITE_ONLY}
        given /a {{"b":5,"c":{{".value":1,".priority":9}}}}
        PUT /a.json {{"b":{{".sv":{{"increment":1}}}},"c":{{".value":{{".sv":{{"increment":2}}}},".priority":{{".sv":{{"increment":4}}}}}},"d":{{"e":{{".sv":"timestamp"}},".priority":{{".sv":"timestamp"}}}},"f":{{".sv":"timestamp",".priority":7}},"g":null,"h":[1,{{".sv":"timestamp"}}]}}
        < 200 {{"b":{{".sv":{{"increment":1}}}},"c":{{".priority":{{".sv":{{"increment":4}}}},".value":{{".sv":{{"increment":2}}}}}},"d":{{".priority":{{".sv":"timestamp"}},"e":{{".sv":"timestamp"}}}},"f":{{".priority":7,".sv":"timestamp"}},"h":[1,{{".sv":"timestamp"}}]}}
        GET /a.json?format=export | Authorization: <owner>
        < 200 matches .*"b":6.*"c":{{"[.]priority":13,"[.]value":3}}.*|.*"b":6.*"c":{{"[.]value":3,"[.]priority":13}}.*
    """),
    row("a patch answers each of its locations as it may be read", "2.1", f"""
        {WRITE_ONLY}
        given / {{"n":41,"open":{{"n":1}},"own":{{"mine":10,"other":20}}}}
        PATCH /.json {{"n":{{".sv":{{"increment":0}}}},"open/n":{{".sv":{{"increment":1}}}},"own/mine":{{".sv":{{"increment":1}}}},"own/other":{{".sv":{{"increment":1}}}},"x":1}}
        < 200 {{"n":{{".sv":{{"increment":0}}}},"open/n":2,"own/mine":11,"own/other":{{".sv":{{"increment":1}}}},"x":1}}
        PATCH /.json {{"n/.priority":5,"gone/.priority":5}}
        < 200 {{"n/.priority":5,"gone/.priority":5}}
        now /n 41
    """),
    row("a put of what holds no server value is answered as ever, with its tag", "2.1", f"""
        {WRITE_ONLY}
        PUT /a.json {{"b":1,"c":null}} | X-Firebase-ETag: true
        < 200 {{"b":1}}
        < ETag: matches [A-Za-z0-9+/]{{27}}=
        DELETE /a.json | X-Firebase-ETag: true
        < 200 null
        < ETag: null_etag
    """),
    row("a post of a server value has no tag where it may not be read", "2.1", f"""
        {WRITE_ONLY}
        POST /l.json {{".sv":"timestamp"}} | X-Firebase-ETag: true
        < 200 matches {{"name":"[^"]{{20}}"}}
        < no ETag
        POST /open.json {{".sv":"timestamp"}} | X-Firebase-ETag: true
        < 200 matches {{"name":"[^"]{{20}}"}}
        < ETag: matches [A-Za-z0-9+/]{{27}}=
    """),
    row("what may be read only once it is written is answered as it is stored", "2.1", """
        rules {"rules":{"$k":{".write":true,".read":"data.child('open').val() == true"}}}
        PUT /k.json {"open":true,"n":{".sv":{"increment":2}}}
        < 200 like {"n":2,"open":true}
        PUT /k.json {"open":false,"n":{".sv":{"increment":2}}}
        < 200 like {"n":{".sv":{"increment":2}},"open":false}
    """),
]

UNKNOWN = [
    row(f"{value} is no server value", "6.1", f"""
        PUT /a.json {value}
        < 400 error {UNRECOGNIZED}
        PATCH /a.json {{"x":1,"y":{value}}}
        < 400 error {UNRECOGNIZED}
        POST /a.json {{"y":{value}}}
        < 400 error {UNRECOGNIZED}
        now / null
    """)
    for value in (
        '{".sv":"nonsense"}', '{".sv":1}', '{".sv":{"decrement":1}}', '{".sv":{"increment":"1"}}', '{".sv":{}}',
    )
]

PRIORITIES = [
    row("a leaf with a priority", "6.2", """
        PUT /a.json {".value":"v",".priority":"p"}
        < 200
        GET /a.json
        < 200 "v"
        GET /a/.priority.json
        < 200 "p"
    """),
    row("a priority beside children", "6.2", """
        PUT /a.json {"b":1,".priority":2.5}
        < 200
        GET /a.json
        < 200 {"b":1}
        GET /a.json?format=export
        < 200 like {"b":1,".priority":2.5}
    """),
    row("a plain put clears the priority", "6.2", """
        given /a {".value":1,".priority":2}
        PUT /a.json 1
        < 200 1
        GET /a/.priority.json
        < 200 null
    """),
    row("a write below keeps the priority", "6.2", """
        given /a {"b":1,".priority":2}
        PUT /a/b.json 3
        < 200 3
        GET /a/.priority.json
        < 200 2
    """),
    row("a null priority is none", "6.2", """
        PUT /a.json {".value":1,".priority":null}
        < 200
        GET /a.json?format=export
        < 200 1
    """),
    row(".value beside children is refused", "6.2", """
        PUT /a.json {".value":1,"b":2}
        < 400 error
        PUT /a.json {".value":1,".priority":1,"b":2}
        < 400 error
        now / null
    """),
    row("a priority of nothing is refused, as over WebSocket", "6.2", """
        PUT /a/.priority.json 1
        < 400 error
        GET /a/.priority.json
        < 200 null
        now / null
    """),
    row("the priority of a boolean or an object is refused", "6.2", """
        PUT /a.json {".value":1,".priority":true}
        < 400 error
        PUT /a.json {".value":1,".priority":{"x":1}}
        < 400 error
        now / null
    """),
]

ROWS = INCREMENTS + UNREADABLE + UNKNOWN + PRIORITIES + [
    row("all timestamps of one request are one", "6.1", one_time_a_request),
    row("a post may carry a timestamp", "6.1", posted_time),
]
