"""What each method does and answers (§2)."""

import re

from exchange import row
from rest_client import Rest, Wire

NOT_AN_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
NAME = r'\{"name":"(-[-0-9A-Z_a-z]{19})"\}'


def posts_in_order(world):
    """Three hundred posts in one burst on one connection: their names sort as they were sent."""
    count = 300
    with Wire(world.port) as wire:
        target = f"/list.json?ns={world.ns}"
        wire.send(b"".join(wire.request_bytes("POST", target, str(number)) for number in range(count)))
        answers = [wire.receive().expect(200).text for _ in range(count)]
    names = [re.fullmatch(NAME, answer)[1] for answer in answers]
    assert names == sorted(names) and len(set(names)) == count, names
    assert Rest(world.port, world.ns).get("/list") == {name: number for number, name in enumerate(names)}


def post_of_null(world):
    rest = Rest(world.port, world.ns)
    assert re.fullmatch(NAME, rest.ask("POST", "/list.json", "null").expect(200).text)
    assert rest.get("/") is None


def head(world):
    """The fields of a GET, and no body: the next answer on the connection is read at the right place."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", {"text": "x" * 100})
    got, told = rest.ask("GET", "/a.json"), rest.ask("HEAD", "/a.json").expect(200)
    for name in ("Content-Type", "Cache-Control", "Access-Control-Allow-Origin"):
        assert told.header(name) == got.header(name), (told, got)
    assert told.header("Content-Length") in (None, str(len(got.body))), told
    rest.ask("GET", "/a/text.json").expect(200, '"' + "x" * 100 + '"')
    rest.ask("HEAD", "/a%23b.json").expect(400)
    rest.ask("HEAD", "/nothing.json").expect(200)
    assert rest.ask("HEAD", "/a.json", fields=[("X-Firebase-ETag", "true")]).etag, "an ETag without a body"


BODIES = ['"text"', "1", "-2.5", "true", "false", '""', '{"a":{"b":[1,2]}}', '["a","b"]', '"🐵 \\" \\\\ \\n"']

PUTS = [
    row(f"a put of {body} answers it and stores it", "2", f"""
        PUT /a.json {body}
        < 200 {body}
        GET /a.json
        < 200 {body}
    """)
    for body in BODIES
] + [
    row(f"a put of {body} deletes the node", "2.1", f"""
        given /a {{"b":1}}
        PUT /a.json {body}
        < 200 null
        now / null
    """)
    for body in ("null", "{}", "[]", '{"b":null}', '{"b":{"c":{}}}', "[null,[]]")
] + [
    row("a put replaces the whole subtree", "2.1", """
        given /a {"b":1,"c":{"d":2}}
        PUT /a.json {"c":{"e":3}}
        < 200 {"c":{"e":3}}
        now /a {"c":{"e":3}}
    """),
    row("nulls inside a put are pruned, and parents they leave empty", "2.1", """
        PUT /a.json {"b":{"c":null},"d":[null,1],"e":0}
        < 200 {"d":[null,1],"e":0}
        now /a {"d":[null,1],"e":0}
    """),
    row("a put below a primitive replaces the primitive", "2.1", """
        given /a 1
        PUT /a/b.json 2
        < 200 2
        now / {"a":{"b":2}}
    """),
    row("a deleted last child takes its parents along", "2.1", """
        given /a/b/c 1
        PUT /a/b/c.json null
        < 200 null
        now / null
    """),
    row("white space around the JSON of a body is nothing", "1.5", """
        PUT /a.json   { "b" : [ 1 , 2 ] }  
        < 200 {"b":[1,2]}
    """),
]

POSTS = [
    row("a post makes a child and answers its name", "2.2", f"""
        POST /list.json {{"a":1}}
        < 200 matches {NAME}
        GET /list.json
        < 200 matches \\{{"-.{{19}}":\\{{"a":1\\}}\\}}
    """),
    row("names sort in the order of the posts", "2.2", posts_in_order),
    row("a post of null stores nothing and answers a name", "2.2", post_of_null),
    row("a post of an empty text stores it", "2.2", """
        POST /list.json ""
        < 200
        GET /list.json
        < 200 matches \\{"-.{19}":""\\}
    """),
]

PATCHES = [
    row("a patch leaves siblings alone", "2.3", """
        given /a {"b":1,"c":2}
        PATCH /a.json {"c":3,"d":4}
        < 200 {"c":3,"d":4}
        now /a {"b":1,"c":3,"d":4}
    """),
    row("a slash at either end of a key is tolerated", "2.3", """
        PATCH /a.json {"/b/c":1,"d/e/":2}
        < 200
        now /a {"b":{"c":1},"d":{"e":2}}
    """),
    row("an empty patch changes nothing", "2.3", """
        given /a 1
        PATCH /a.json {}
        < 200 {}
        now /a 1
    """),
    row("a patch of null deletes, for the CLI", "2.3", """
        given /a {"b":1}
        PATCH /a.json?print=silent&writeSizeLimit=tiny null
        < 204 empty
        now / null
    """),
    row("a patch that only deletes is a patch", "2.3", """
        given /a {"b":1,"c":2}
        PATCH /a.json {"b":null}
        < 200 {"b":null}
        now /a {"c":2}
    """),
    row("one bad key and nothing is written", "2.3", f"""
        PATCH /a.json {{"good":1,"b$d":2}}
        < 400 error {NOT_AN_OBJECT}
        PATCH /a.json {{"good":1,"x/y.z":2}}
        < 400 error {NOT_AN_OBJECT}
        PATCH /a.json {{"good":1,"x":{{"y#z":2}}}}
        < 400 error
        now / null
    """),
    row("an ancestor beside its descendant is refused", "2.3", """
        PATCH /a.json {"b":1,"b/c":2}
        < 400 error
        PATCH /a.json {"b/c/d":1,"b":{"x":2}}
        < 400 error
        PATCH /a.json {"b":1,"/b/":2}
        < 400 error
        now / null
    """),
    row("of a name that comes twice the last counts, in a put and in a patch", "2.3", """
        PUT /a.json {"x":1,"y":3,"x":2}
        < 200 {"x":2,"y":3}
        PATCH /b.json {"x":1,"y":3,"x":2}
        < 200 like {"x":2,"y":3}
        PUT /a.json {"x":{".sv":"timestamp"},"y":{"z":1,"z":{"w":2}},"x":2}
        < 200 {"x":2,"y":{"z":{"w":2}}}
        PATCH /b.json {"x":{".sv":"timestamp"},"y":{"z":1,"z":{"w":2}},"x":2}
        < 200 like {"x":2,"y":{"z":{"w":2}}}
        PATCH /b.json {"p/q":1,"p/q":2,"x/.priority":3,"x/.priority":4,"gone":1,"gone":null}
        < 200 like {"p/q":2,"x/.priority":4,"gone":null}
        PATCH /b.json {"x":1,"x":2,"x/y":3}
        < 400 error
        PATCH /b.json {"x":1,"/x":2,"x":3}
        < 400 error
        now /b {"x":2,"y":{"z":{"w":2}},"p":{"q":2}}
    """),
    row("a key that only begins like another is no ancestor", "2.3", """
        PATCH /a.json {"b":1,"bc/d":2}
        < 200
        now /a {"b":1,"bc":{"d":2}}
    """),
    row("one refused path and nothing is written", "2.3", """
        rules {"rules":{"open":{".write":true}}}
        PATCH /.json {"open/a":1,"closed/a":1}
        < 401 error Permission denied
        now / null
    """),
    row(".priority in a patch sets the priority of the target", "2.3", """
        given /a {"b":1}
        PATCH /a.json {".priority":5}
        < 200
        GET /a.json?format=export
        < 200 like {".priority":5,"b":1}
    """),
] + [
    row(f"a patch of {body} is refused", "2.3", f"""
        PATCH /a.json {body}
        < 400 error {NOT_AN_OBJECT}
        now / null
    """)
    for body in ("1", '"x"', "true", "[]", '[{"a":1}]', '{"a":', "{a:1}")
]

REST = [
    row("deleting ignores a body", "2.4", """
        given /a 1
        DELETE /a.json {"not":"looked at
        < 200 null
        now / null
    """),
    row("HEAD is a GET without its body", "2", head),
    row("other methods are refused", "2", """
        PROPFIND /a.json
        < 405 error Method not allowed
    """),
] + [
    row(f"print=silent turns the 200 of {request.split()[0]} into 204", "2", f"""
        given /a {{"b":1}}
        {request.replace('.json', '.json?print=silent')}
        < 204 empty
    """)
    for request in ("GET /a.json", "PUT /a.json 1", "POST /a.json 1", 'PATCH /a.json {"c":1}', "DELETE /a.json")
]

ROWS = PUTS + POSTS + PATCHES + REST
