"""Every error of the catalogue (§11) and the order in which a request is judged (§9)."""

from exchange import row
from rest_client import Rest, Wire

NOT_JSON = "Invalid data; couldn't parse JSON object, array, or value."
NO_DATA = "Error: No data supplied."
NO_PATH = "Invalid path: Invalid token in path"
DENIED = r'exactly "{\n  \"error\" : \"Permission denied\"\n}\n"'
CLOSED = 'rules {"rules":{"open":{".read":true,".write":true}}}'
TERABYTE = 1 << 40


def too_large_by_announcement(world):
    """A length over the hard cap is refused before the body is sent."""
    with Wire(world.port) as wire:
        wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [("Content-Length", TERABYTE)]))
        wire.receive().expect_error(413, "Payload too large")
    assert Rest(world.port, world.ns).get("/") is None


def too_large_by_announcement_under_expect(world):
    """A client that waits for `100 Continue` gets the refusal at once, and never `100 Continue`."""
    with Wire(world.port) as wire:
        wire.send(wire.head("PUT", f"/a.json?ns={world.ns}", [
            ("Content-Length", TERABYTE), ("Expect", "100-continue"),
        ]))
        wire.receive().expect_error(413, "Payload too large")


def denial_is_36_bytes(world):
    response = Rest(world.port, "default").ask("GET", "/a.json")
    assert response.body == b'{\n  "error" : "Permission denied"\n}\n' and len(response.body) == 36, response


BAD_BODIES = ["{bad", "[1", '"a', "tru", "{'a':1}", "1 2", '{"a":1}}', "undefined", '{"a" 1}', '{"a":1,}', "[1,]",
              '"\t"', '"\\x"', "{1:2}"]

BODIES = [
    row(f"a body of {body!r} is no JSON", "11", f"""
        PUT /a.json {body}
        < 400 error {NOT_JSON}
        POST /a.json {body}
        < 400 error {NOT_JSON}
        now / null
    """)
    for body in BAD_BODIES
] + [
    row("a body with an illegal key is refused", "11", f"""
        PUT /a.json {{"b":{{"c/d":1}}}}
        < 400 error {NOT_JSON}
        PUT /a.json {{"b":{{"":1}}}}
        < 400 error {NOT_JSON}
        PUT /a.json {{"b$":1}}
        < 400 error {NOT_JSON}
        POST /a.json {{"b#":1}}
        < 400 error {NOT_JSON}
        PUT /a.json {{"b\\u0001":1}}
        < 400 error {NOT_JSON}
        PATCH /a.json {{"b":{{"c/d":1}}}}
        < 400 error Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?
        now / null
    """),
    row("a write without a body is refused", "11", f"""
        PUT /a.json
        < 400 error {NO_DATA}
        POST /a.json
        < 400 error {NO_DATA}
        PATCH /a.json
        < 400 error {NO_DATA}
        now / null
    """),
    row("five thousand brackets are refused", "13", f"""
        PUT /a.json {"[" * 5000}
        < 400 error
        PUT /a.json {"[" * 5000 + "1" + "]" * 5000}
        < 400 error
        PATCH /a.json {'{"a":' * 5000}
        < 400 error
        now / null
    """),
    row("a body over the hard cap is refused before it is sent", "11", too_large_by_announcement),
    row("… and so is one that waits for 100 Continue", "11", too_large_by_announcement_under_expect),
]

LOCKED = [
    row(f"without rules, {request} is denied, byte for byte", "11", f"""
        {request}
        < 401 {DENIED}
    """, mode="locked")
    for request in ("GET /.json", "GET /a/b.json", "PUT /a.json 1", "POST /a.json 1", 'PATCH /a.json {"b":1}',
                    "DELETE /a.json", "GET /a.json?shallow=true", 'GET /a.json?orderBy="$key"',
                    "PUT /a.json?print=silent 1")
] + [
    row("a patch of nothing succeeds and changes nothing, also without permission", "2.3", """
        PATCH /a/b.json {}
        < 200 {}
        PATCH /.json?print=silent {}
        < 204 empty
    """, mode="locked"),
    row("a denial is 36 bytes", "3", denial_is_36_bytes, mode="locked"),
    row("without --dev the token `owner` is refused", "11", """
        GET /a.json | Authorization: <owner>
        < 401 error Unauthorized request.
        GET /a.json?access_token=owner
        < 401 error Unauthorized request.
        GET /a.json?auth=owner
        < 401 error Could not parse auth token.
        PUT /.settings/rules.json {"rules":{}} | Authorization: <owner>
        < 401 error
    """, mode="locked"),
    row("without --dev an unsigned token is worth nothing, however it is spelled", "11", """
        GET /a.json | Authorization: Bearer eyJhbGciOiJub25lIn0=.eyJzdWIiOiJib2I/fn5+In0=.
        < 401 error
        GET /a.json?auth=eyJhbGciOiJub25lIiwidHlwZSI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImlhdCI6MCwiZXhwIjozNjAwfQ.
        < 401 error
    """, mode="locked"),
    row("rules refuse what they do not allow, and nothing else", "11", f"""
        {CLOSED}
        given / {{"open":1,"closed":1}}
        GET /open.json
        < 200 1
        GET /closed.json
        < 401 {DENIED}
        PUT /closed.json 2
        < 401 {DENIED}
        PUT /open.json 2
        < 200 2
        now / {{"open":2,"closed":1}}
    """),
]

CREDENTIALS = [
    row(f"{what} in `auth` is refused even where every client may read", "11", f"""
        given /a 1
        GET /a.json?auth={token}
        < 401 error Could not parse auth token.
    """)
    for what, token in [
        ("one word", "x"), ("two parts", "a.b"), ("a token of garbage", "a.b.c"), ("four parts", "a.b.c.d"),
    ]
] + [
    row("an unknown bearer token is refused", "11", """
        GET /a.json | Authorization: Bearer nobody
        < 401 error Unauthorized request.
        GET /a.json?access_token=nobody
        < 401 error Unauthorized request.
    """),
    row("an unsigned token is accepted by --dev, whatever its time", "auth 2.5", """
        given /a 1
        GET /a.json?auth=eyJhbGciOiJub25lIiwidHlwZSI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImlhdCI6MCwiZXhwIjozNjAwfQ.
        < 200 1
    """),
    row("an unsigned token in standard Base64 is accepted by --dev, a signed one is not", "auth 2.5", """
        rules {"rules":{"a":{".read":"auth.uid == 'bob?~~~'"}}}
        GET /a.json?auth=eyJhbGciOiJub25lIn0%3D.eyJzdWIiOiJib2I/fn5%2BIn0%3D.
        < 200 null
        GET /a.json | Authorization: Bearer eyJhbGciOiJub25lIn0=.eyJzdWIiOiJib2I/fn5+In0=.
        < 200 null
        GET /a.json | Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2I/fn5+In0=.c2k=
        < 401 error Unauthorized request.
    """),
    row("an unsigned token without a subject is refused", "auth 3", """
        GET /a.json?auth=eyJhbGciOiJub25lIiwidHlwZSI6IkpXVCJ9.eyJpYXQiOjAsImV4cCI6MzYwMH0.
        < 401 error
    """),
    row("a bearer that is valid is stronger than an `auth` that is not", "auth 6", """
        given /a 1
        GET /a.json?auth=garbage | Authorization: <owner>
        < 200 1
    """),
    row("an override without the administrator is refused", "auth 2.4", """
        GET /a.json?auth_variable_override=%7B%22uid%22%3A%22u1%22%7D
        < 401 error
    """),
]

ORDER = [
    row("an unknown database comes before a bad path", "9", """
        GET /a%23b.json?ns=no-such-database
        < 404 error
    """, mode="locked"),
    row("a bad path comes before a bad method, a bad parameter and a bad token", "9", f"""
        PROPFIND /a%23b.json
        < 400 error {NO_PATH}
        GET /a%23b.json?limitToFirst=1
        < 400 error {NO_PATH}
        GET /a%23b.json?auth=garbage
        < 400 error {NO_PATH}
    """),
    row("a bad method comes before a bad parameter and a bad token", "9", """
        PROPFIND /a.json?limitToFirst=1&auth=garbage
        < 405 error Method not allowed
    """),
    row("a bad parameter comes before a bad token", "9", """
        GET /a.json?limitToFirst=1&auth=garbage
        < 400 error orderBy must be defined when other query parameters are defined
    """),
    row("a bad token comes before a bad body", "9", """
        PUT /a.json?auth=garbage {bad
        < 401 error Could not parse auth token.
    """),
    row("a bad body comes before a bad condition", "9", f"""
        PUT /a.json {{bad | if-none-match: x
        < 400 error {NOT_JSON}
    """),
    row("a bad condition comes before a denial", "9", f"""
        {CLOSED}
        PATCH /closed.json {{"b":1}} | if-match: x
        < 400 error
        PUT /closed.json {{"b":1}} | if-match: x
        < 401 error Permission denied
    """),
    row("a denial comes before a missing index", "9", f"""
        {CLOSED}
        GET /closed.json?orderBy="n"
        < 401 error Permission denied
        GET /open.json?orderBy="n"
        < 400 error Index not defined, add ".indexOn": "n", for path "/open", to the rules
    """),
]

ROWS = BODIES + LOCKED + CREDENTIALS + ORDER
