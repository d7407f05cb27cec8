"""Query parameters, and each misuse of them (§4)."""

from exchange import row

INDEXED = 'rules {"rules":{".read":true,".write":true,"q":{".indexOn":["n"]},"v":{".indexOn":".value"}}}'
ORDER = 'orderBy="$key"'
TWO_BOUNDS = "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
NEEDS_ORDER = "orderBy must be defined when other query parameters are defined"
BAD_ORDER = "orderBy must be a valid JSON encoded path"
NO_PRIMITIVE = "Constraint index field must be a JSON primitive"
NO_STRING = "Provided key index type is invalid, must be string"
BAD_SIZE = "writeSizeLimit must be one of tiny, small, medium, large, unlimited"
DATA = '{"a":{"n":1},"b":{"n":2},"c":{"n":3}}'


def misuse(query, text, name=None):
    return row(f"{name or query} is refused: {text or 'some text'}", "4.2", f"""
        {INDEXED}
        given /q {DATA}
        GET /q.json?{query}
        < 400 error{' ' + text if text else ''}
    """)


MISUSES = [
    misuse(f"{name}={value}", NEEDS_ORDER)
    for name, value in [("limitToFirst", 2), ("limitToLast", 2), ("startAt", 1), ("startAfter", 1), ("endAt", 1),
                        ("endBefore", 1), ("equalTo", 1), ("startAt", '"a"&endAt="b"')]
] + [
    misuse(f"orderBy={value}", BAD_ORDER)
    for value in ["name", "", '""', "1", "null", "true", '["n"]', '{"n":1}', '"n', '"a.b"', '"a%23b"', '"$nonsense"',
                  '"a[b"', "'n'"]
] + [
    misuse(f"{ORDER}&limitToFirst=1&limitToLast=1", "Only one of limitToFirst and limitToLast may be specified"),
] + [
    misuse(f"{ORDER}&{name}={value}", f"{name} must be an integer")
    for name in ("limitToFirst", "limitToLast")
    for value in ("x", "1.5", '"1"', "true", "2147483648", "9223372036854775808", "99999999999999999999")
] + [
    misuse(f"{ORDER}&{name}={value}", f"{name} must be positive")
    for name in ("limitToFirst", "limitToLast")
    for value in ("0", "-1", "")
] + [
    misuse(f'{ORDER}&equalTo="a"&{bound}="a"', TWO_BOUNDS) for bound in ("startAt", "startAfter", "endAt", "endBefore")
] + [
    misuse(f'orderBy="n"&{bound}={value}', NO_PRIMITIVE)
    for bound in ("startAt", "startAfter", "endAt", "endBefore", "equalTo")
    for value in ("{}", "[1]", "x", '"a')
] + [
    misuse(f"{ORDER}&{bound}={value}", NO_STRING)
    for bound in ("startAt", "startAfter", "endAt", "endBefore", "equalTo")
    for value in ("5", "true")
] + [
    misuse(f'{ORDER}&startAt="a"&startAfter="a"', "Only one of startAt and startAfter may be specified"),
    misuse(f'{ORDER}&endAt="a"&endBefore="a"', None),
    misuse('orderBy="h"', 'Index not defined, add ".indexOn": "h", for path "/q", to the rules'),
    misuse('orderBy="h/x"', 'Index not defined, add ".indexOn": "h/x", for path "/q", to the rules'),
    misuse('orderBy="$value"', 'Index not defined, add ".indexOn": ".value", for path "/q", to the rules'),
    misuse('orderBy="h"&limitToFirst=1', 'Index not defined, add ".indexOn": "h", for path "/q", to the rules'),
    misuse(f"{ORDER}&{ORDER}", None, "orderBy twice"),
] + [
    row("an index is needed even by the administrator", "5.1", f"""
        {INDEXED}
        GET /q.json?orderBy="h" | Authorization: <owner>
        < 400 error Index not defined, add ".indexOn": "h", for path "/q", to the rules
    """),
    row("an index of one path is none of another", "4.2", f"""
        {INDEXED}
        GET /other/deep.json?orderBy="n"
        < 400 error Index not defined, add ".indexOn": "n", for path "/other/deep", to the rules
    """),
] + [
    row(f"timeout={value} is refused", "4.2", f"""
        GET /a.json?timeout={value}
        < 400 matches .*timeout must be.*
    """)
    for value in ("0ms", "0s", "-1s", "16min", "901s", "900001ms", "x", "5", "", "1h", "1.5x")
] + [
    row(f"writeSizeLimit={value or 'nothing'} is refused", "4.2", f"""
        PUT /a.json?writeSizeLimit={value} 1
        < 400 error {BAD_SIZE}
        now / null
    """)
    for value in ("huge", "1", "", "%22tiny%22")
]

ACCEPTED = [
    row(f"timeout={value} is a time", "4", f"""
        given /a 1
        GET /a.json?timeout={value}
        < 200 1
    """)
    for value in ("5000ms", "10s", "3min", "15min", "900s")
] + [
    row(f"writeSizeLimit={value} is a size", "4", f"""
        PUT /a.json?writeSizeLimit={value} {{"b":1}}
        < 200 {{"b":1}}
        PATCH /a.json?writeSizeLimit={value} {{"c":1}}
        < 200 {{"c":1}}
        DELETE /a.json?writeSizeLimit={value}
        < 200 null
    """)
    for value in ("tiny", "small", "medium", "large", "unlimited")
] + [
    row("unknown parameters are ignored", "4", """
        given /a {"b":1}
        GET /a.json?ac=token&x=1&y&=z&&disableTriggers=true
        < 200 {"b":1}
        PUT /a.json?disableTriggers=true&sse=true 2
        < 200 2
    """),
    row("query parameters on a write are ignored", "4.2", """
        PUT /a.json?orderBy=x&limitToFirst=abc 1
        < 200 1
        POST /l.json?equalTo=1 1
        < 200
        DELETE /a.json?limitToLast=0
        < 200 null
    """),
    row("Firebase's own header fields are ignored", "12", """
        given /a 1
        GET /a.json | X-Firebase-Decoding: 1 | x-goog-api-client: gl-node/20 | X-Client-Version: Node/Admin/1
        < 200 1
    """),
    row("format=export shows priorities at every level", "6.2", """
        given /a {"b":{".value":1,".priority":"x"},"c":{"d":2,".priority":3},"e":4}
        GET /a.json?format=export
        < 200 like {"b":{".value":1,".priority":"x"},"c":{"d":2,".priority":3},"e":4}
        GET /a.json
        < 200 {"b":1,"c":{"d":2},"e":4}
    """),
]

SHALLOW = [
    row("shallow shows children as true, in key order", "4.1", """
        given /a {"b":{"c":1},"10":"x","9":false}
        GET /a.json?shallow=true
        < 200 {"9":true,"10":true,"b":true}
    """),
    row("shallow shows a primitive as itself, and nothing as null", "4.1", """
        given /a "x"
        GET /a.json?shallow=true
        < 200 "x"
        GET /b.json?shallow=true
        < 200 null
    """),
    row("shallow pages as the CLI does: a limit, and a bare key to start after", "4.1", """
        given /a {"b":1,"c":2,"d":3,"e":4}
        GET /a.json?shallow=true&limitToFirst=2&timeout=30000ms
        < 200 {"b":true,"c":true}
        GET /a.json?shallow=true&limitToFirst=2&startAfter=c&timeout=30000ms
        < 200 {"d":true,"e":true}
        GET /a.json?shallow=true&limitToFirst=2&startAfter=e
        < 200 null
        GET /a.json?shallow=true&limitToFirst=1
        < 200 {"b":true}
    """),
    row("shallow pages over integer keys by value", "4.1", """
        given /a {"2":1,"10":2,"x":3}
        GET /a.json?shallow=true&startAfter=2
        < 200 {"10":true,"x":true}
        GET /a.json?shallow=true&startAfter=10&limitToFirst=5
        < 200 {"x":true}
    """),
    row("shallow goes with pretty and silent", "4.1", r"""
        given /a {"b":1}
        GET /a.json?shallow=true&print=pretty
        < 200 exactly "{\n  \"b\" : true\n}\n"
        GET /a.json?shallow=true&print=silent
        < 204 empty
    """),
    row("shallow needs no index", "4.1", f"""
        {INDEXED}
        given /z {DATA}
        GET /z.json?shallow=true
        < 200 {{"a":true,"b":true,"c":true}}
    """),
    row("shallow needs permission to read", "4.1", """
        rules {"rules":{"a":{".write":true,"b":{".read":true}}}}
        given /a {"b":{"c":1}}
        GET /a.json?shallow=true
        < 401 error Permission denied
        GET /a/b.json?shallow=true
        < 200 {"c":true}
    """),
] + [
    row(f"shallow and {query} do not go together", "4.1", f"""
        given /a {{"b":1}}
        GET /a.json?shallow=true&{query}
        < 400 error
    """)
    for query in (ORDER, 'equalTo="b"', 'startAt="b"', 'endAt="b"', 'endBefore="b"', "limitToLast=1", "format=export")
]

ROWS = MISUSES + ACCEPTED + SHALLOW
