"""ETags and conditions: the whole matrix (§7)."""

import concurrent.futures
import json

import tree
from exchange import PATTERN_OF_ETAG, row
from rest_client import Rest

MIXING = (
    "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported"
)
MIXING_SHALLOW = "Mixing 'shallow' and etag requests is not supported"
BODY = {"PUT": " 2", "POST": " 2", "PATCH": ' {"b":2}', "DELETE": "", "GET": ""}


def refused(method, field, value="null_etag"):
    return row(f"{method} with {field} is refused", "7", f"""
        given /a 1
        {method} /a.json{BODY[method]} | {field}: {value}
        < 400 error
        now / {{"a":1}}
    """)


def mixed(request, field, text):
    return row(f"{request} with {field} is refused: {text[:16]}…", "7", f"""
        given /a {{"b":1}}
        {request} | {field}
        < 400 error {text}
        now /a {{"b":1}}
    """)


def tags_are_hashes(world):
    """Our ETag is the SDK's own hash of the node, which transactions over WebSocket use too."""
    rest = Rest(world.port, world.ns)
    for value in (
        None, 10, 1.5, True, False, "x", "🐵", [1, 2], {"b": {"c": 1}, "10": "x", "9": False},
        {".value": 1, ".priority": 2}, {"a": {".value": "x", ".priority": "y"}, ".priority": 3},
    ):
        wanted = tree.simple_hash(tree.parse(value)) or "null_etag"
        rest.put("/a", value)
        got = rest.ask("GET", "/a.json", fields=[("X-Firebase-ETag", "true")]).expect(200).etag
        assert got == wanted, (json.dumps(value), got, wanted)
        put = rest.ask("PUT", "/a.json", json.dumps(value), [("X-Firebase-ETag", "true")]).expect(200).etag
        assert put == wanted, (json.dumps(value), put, wanted)


def one_winner(world):
    """Compare and write are one step: of eight puts under one ETag, one passes."""
    rest = Rest(world.port, world.ns)
    for round_number in range(20):
        tag = rest.ask("GET", "/a.json", fields=[("X-Firebase-ETag", "true")]).etag

        def attempt(number):
            one = Rest(world.port, world.ns)
            response = one.ask("PUT", "/a.json", f'"{round_number}-{number}"', [("if-match", tag)])
            one.close()
            return response

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(attempt, range(8)))
        winners = [answer for answer in answers if answer.status == 200]
        assert [answer.status for answer in answers].count(412) == 7 and len(winners) == 1, answers
        assert rest.ask("GET", "/a.json").expect(200, winners[0].body)
        for loser in answers:
            assert loser.body == winners[0].body and loser.etag == winners[0].etag, (loser, winners)


READS = [
    row("a GET has an ETag only when asked", "7", f"""
        given /a 1
        GET /a.json
        < 200 1
        < no ETag
        GET /a.json | X-Firebase-ETag: true
        < 200 1
        < ETag: matches {PATTERN_OF_ETAG}
    """),
    row("the ETag of nothing is null_etag", "7", """
        GET /a.json | X-Firebase-ETag: true
        < 200 null
        < ETag: null_etag
    """),
    row("equal data has an equal ETag, other data another", "7", """
        given /a {"x":1,"y":[1,2]}
        given /b {"y":{"0":1,"1":2},"x":1.0}
        given /c {"x":1,"y":[2,1]}
        GET /a.json | X-Firebase-ETag: true
        < ETag: <one>
        GET /b.json | X-Firebase-ETag: true
        < ETag: <one>
        GET /c.json | X-Firebase-ETag: true
        < ETag: <other>
    """),
    row("if-none-match of the current ETag is 304 without a body", "7", """
        given /a {"b":1}
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        GET /a.json | if-none-match: <t>
        < 304 empty
        GET /a.json
        < 200 {"b":1}
    """),
    row("if-none-match of another ETag answers the value and its ETag", "7", """
        given /a 1
        GET /a.json | if-none-match: null_etag
        < 200 1
        < ETag: <t>
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        given /a 2
        GET /a.json | if-none-match: <t>
        < 200 2
        < ETag: <t2>
    """),
    row("if-none-match of nothing is 304", "7", """
        GET /a.json | if-none-match: null_etag
        < 304 empty
    """),
    row("a 304 needs permission to read", "7", """
        GET /a.json | if-none-match: null_etag
        < 401 error Permission denied
    """, mode="locked"),
]

WRITES = [
    row("a PUT answers the new ETag when asked", "7", f"""
        PUT /a.json {{"b":1}} | X-Firebase-ETag: true
        < 200 {{"b":1}}
        < ETag: <t>
        < ETag: matches {PATTERN_OF_ETAG}
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        PUT /a.json null | X-Firebase-ETag: true
        < 200 null
        < ETag: null_etag
        PUT /a.json 1
        < no ETag
    """),
    row("a POST answers the ETag of what was posted", "7", """
        PUT /a.json {"b":1} | X-Firebase-ETag: true
        < ETag: <t>
        POST /l.json {"b":1} | X-Firebase-ETag: true
        < 200
        < ETag: <t>
    """),
    row("a DELETE answers the ETag of nothing", "7", """
        given /a 1
        DELETE /a.json | X-Firebase-ETag: true
        < 200 null
        < ETag: null_etag
    """),
    row("a PUT under the current ETag passes and has the new one, unasked", "7", """
        given /a 1
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        PUT /a.json 2 | if-match: <t>
        < 200 2
        < ETag: <t2>
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t2>
    """),
    row("a PUT under a stale ETag answers the current value and ETag, and changes nothing", "7", """
        given /a {"now":[1]}
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        PUT /a.json 2 | if-match: AAAAAAAAAAAAAAAAAAAAAAAAAAA=
        < 412 {"now":[1]}
        < ETag: <t>
        < Content-Type: application/json; charset=utf-8
        now /a {"now":[1]}
    """),
    row("a 412 of nothing is null and null_etag", "7", """
        PUT /a.json 2 | if-match: AAAAAAAAAAAAAAAAAAAAAAAAAAA=
        < 412 null
        < ETag: null_etag
    """),
    row("a DELETE under the current ETag passes", "7", """
        given /a 1
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        DELETE /a.json | if-match: <t>
        < 200 null
        now / null
    """),
    row("a DELETE under a stale ETag is 412", "7", """
        given /a 1
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        DELETE /a.json | if-match: null_etag
        < 412 1
        < ETag: <t>
        now /a 1
    """),
    row("a DELETE of nothing under null_etag passes", "7", """
        DELETE /a.json | if-match: null_etag
        < 200 null
    """),
    row("ETags are opaque: no star, no quotes, no weakness, no other case", "7", """
        given /a 1
        GET /a.json | X-Firebase-ETag: true
        < ETag: <t>
        PUT /a.json 2 | if-match: *
        < 412 1
        PUT /a.json 2 | if-match: "<t>"
        < 412 1
        PUT /a.json 2 | if-match: W/"<t>"
        < 412 1
        PUT /a.json 2 | if-match: <t>, <t>
        < 412 1
        PUT /a.json 2 | if-match: NULL_ETAG
        < 412 1
        now /a 1
    """),
    row("a 412 reveals a value, so it needs permission to read", "7", """
        rules {"rules":{"secret":{".write":true},"open":{".read":true,".write":true}}}
        given /secret 1
        given /open 1
        PUT /secret.json 2 | if-match: AAAAAAAAAAAAAAAAAAAAAAAAAAA=
        < 401 error Permission denied
        DELETE /secret.json | if-match: AAAAAAAAAAAAAAAAAAAAAAAAAAA=
        < 401 error Permission denied
        PUT /open.json 2 | if-match: AAAAAAAAAAAAAAAAAAAAAAAAAAA=
        < 412 1
        now / {"secret":1,"open":1}
    """),
    row("of eight puts under one ETag one passes", "7", one_winner),
    row("an ETag is the SDK's hash of the node", "7", tags_are_hashes),
]

REFUSED = [
    refused("GET", "if-match"), refused("POST", "if-match"),
    refused("PATCH", "if-match"), refused("PUT", "if-none-match"), refused("POST", "if-none-match"),
    refused("PATCH", "if-none-match"), refused("DELETE", "if-none-match"), refused("PATCH", "X-Firebase-ETag", "true"),
]

MIXED = [
    mixed(request, field, MIXING)
    for request, field in [
        ("GET /a.json?shallow=true", "if-none-match: x"),
        ("GET /a.json?print=silent", "if-none-match: x"),
        ('GET /a.json?orderBy="$key"', "if-none-match: x"),
        ('GET /a.json?orderBy="$key"&limitToFirst=1', "if-none-match: x"),
        ("PUT /a.json?print=silent 2", "if-match: x"),
        ("PUT /a.json?shallow=true 2", "if-match: x"),
        ("DELETE /a.json?print=silent", "if-match: x"),
    ]
] + [
    mixed("GET /a.json?shallow=true", "X-Firebase-ETag: true", MIXING_SHALLOW),
]

ROWS = READS + WRITES + REFUSED + MIXED
