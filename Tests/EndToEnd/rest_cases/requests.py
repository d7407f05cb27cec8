"""Paths, databases, keys and method overrides (§1)."""

from exchange import row
from rest_client import Rest, Wire

BAD_PATH = "Invalid path: Invalid token in path"


def without_ns(world):
    """An address or `localhost` is no database name: the default one is meant (CLI listings lose `ns`)."""
    path = f"/{world.ns}"
    named = Rest(world.port, "default")
    named.put(path, "here")
    with Wire(world.port) as wire:
        hosts = (
            "127.0.0.1", f"127.0.0.1:{world.port}", "localhost", f"localhost:{world.port}", "[::1]:9000",
            f"{world.ns}.localhost", f"{world.ns}.localhost:{world.port}")
        for host in hosts:
            wire.ask("GET", f"{path}.json", host=host).expect(200, '"here"')
    named.put(path, None)


def host_label(world):
    rest = Rest(world.port, world.ns)
    rest.put("/a", 1)
    with Wire(world.port) as wire:
        for host in (
                f"{world.ns}.firebaseio.localhost", f"{world.ns.upper()}.Example.Localhost:9000",
                f"{world.ns}.europe-west1.firebasedatabase.localhost"):
            wire.ask("GET", "/a.json", host=host).expect(200, "1")
            wire.ask("GET", "/a.json?ns=", host=host).expect(200, "1")


def ns_before_host(world):
    rest = Rest(world.port, world.ns)
    rest.put("/a", 1)
    rest.ask("GET", "/a.json", host="elsewhere.example.localhost").expect(200, "1")
    with Wire(world.port) as wire:
        wire.ask("GET", "/a.json", host=f"{world.ns}-other.example.localhost").expect(200, "null")


def two_databases(world):
    one, other = Rest(world.port, world.ns), Rest(world.port, f"{world.ns}-b")
    one.put("/a", 1)
    other.put("/a", 2)
    assert (one.get("/a"), other.get("/a")) == (1, 2)


def depth_of(count):
    return "/" + "/".join("d" * count)


LONG_KEY, TOO_LONG_KEY = "k" * 768, "k" * 769

PATHS = [
    row("the root is /.json", "1.1", """
        PUT /.json {"a":1}
        < 200 {"a":1}
        GET /.json
        < 200 {"a":1}
    """),
    row("/a/b.json and /a/b/.json are one node", "1.1", """
        PUT /a/b/.json 1
        < 200 1
        GET /a/b.json
        < 200 1
        GET /a/b/.json
        < 200 1
    """),
    row("empty segments are dropped", "1.1", """
        PUT /a//b.json 1
        < 200 1
        GET //a/b//.json
        < 200 1
        now / {"a":{"b":1}}
    """),
    row("segments are percent-decoded as UTF-8", "1.1", """
        PUT /caf%C3%A9/%F0%9F%90%B5.json 1
        < 200 1
        now / {"café":{"🐵":1}}
    """),
    row("a space in a path is %20", "1.1", """
        PUT /a%20b.json 1
        < 200 1
        now / {"a b":1}
    """),
    row("the suffix is cut before decoding", "1.1", """
        GET /a%2Ejson
        < 404 error
    """),
    row("a plus in the query string is a space", "1.1", """
        given /q {"a b":1,"a+b":2}
        GET /q.json?orderBy=%22$key%22&equalTo=%22a+b%22
        < 200 {"a b":1}
    """),
    row("a %2B in the query string is a plus", "1.1", """
        given /q {"a b":1,"a+b":2}
        GET /q.json?orderBy=%22$key%22&equalTo=%22a%2Bb%22
        < 200 {"a+b":2}
    """),
    row("parameter names and values may be percent-encoded", "1.1", """
        given /q {"a":{"b":1}}
        GET /q.json?sha%6Clow=tr%75e
        < 200 {"a":true}
    """),
    row("without .json there is no REST", "1.1", """
        GET /a
        < 404 error append .json to your request URI to use the REST API.
        PUT /a 1
        < 404 error append .json to your request URI to use the REST API.
        now / null
    """),
    row("the suffix is case-sensitive", "1.1", """
        GET /a.JSON
        < 404 error append .json to your request URI to use the REST API.
    """),
    row("a path of the deepest level is written and read", "1.3", f"""
        PUT {depth_of(32)}.json 1
        < 200 1
        GET {depth_of(32)}.json
        < 200 1
    """),
    row("a path one level deeper is refused", "1.3", f"""
        PUT {depth_of(33)}.json 1
        < 400 error
        now / null
    """),
    row("a body that would be one level too deep is refused", "1.3", f"""
        PUT {depth_of(31)}.json {{"a":{{"b":1}}}}
        < 400 error
        now / null
    """),
    row("the longest key is written and read", "1.3", f"""
        PUT /{LONG_KEY}.json 1
        < 200 1
        GET /{LONG_KEY}.json
        < 200 1
    """),
    row("a key one byte longer is refused", "1.3", f"""
        PUT /{TOO_LONG_KEY}.json 1
        < 400 error
        now / null
    """),
    row("/.info is no path of REST", "1.1", """
        GET /.info/connected.json
        < 400 error
        GET /.info.json
        < 400 error
    """),
    row("a priority is addressed by its own name", "1.3", """
        given /a "x"
        PUT /a/.priority.json 7
        < 200 7
        GET /a/.priority.json
        < 200 7
        GET /a.json?format=export
        < 200 like {".value":"x",".priority":7}
        PUT /a/.priority.json null
        < 200 null
        GET /a/.priority.json
        < 200 null
    """),
]

ILLEGAL = {
    "a dot": "a.b", "a dollar": "a$b", "an encoded dollar": "a%24b", "an encoded hash": "a%23b", "a bracket": "a[b",
    "an encoded bracket": "a%5Db", "a NUL": "a%00b", "a control character": "a%1Fb", "DEL": "a%7Fb",
    "an encoded slash": "a%2Fb", "the suffix twice": "a.json", "a lone dot": ".", "two dots": "..",
}
NO_TEXT = {
    "bytes that are no UTF-8": "%FF", "a lone surrogate": "%ED%A0%80", "an overlong slash": "%C0%AF",
    "half an escape": "a%2", "an escape that is none": "a%zz",
}
ILLEGAL_PATHS = [
    row(f"a path with {what} is refused", "1.3", f"""
        GET /x/{segment}.json
        < 400 error {BAD_PATH}
        PUT /x/{segment}.json 1
        < 400 error {BAD_PATH}
        now / null
    """)
    for what, segment in ILLEGAL.items()
] + [
    row(f"a path with {what} is refused, whatever the text", "1.3", f"""
        GET /x/{segment}.json
        < 400 error
    """)
    for what, segment in NO_TEXT.items()
]

DATABASES = [
    row("without a name, or with a Host of two labels, the default database is meant", "1.2", without_ns),
    row("the first label of a Host of three or more names the database, in lower case", "1.2", host_label),
    row("ns is stronger than Host", "1.2", ns_before_host),
    row("two databases share nothing", "1.2", two_databases),
    row("an unknown database is 404", "1.2", """
        GET /a.json?ns=no-such-database
        < 404 error
        PUT /a.json?ns=no-such-database 1
        < 404 error
    """, mode="locked"),
]

OVERRIDES = [
    row(f"a POST with X-HTTP-Method-Override stands for {method}", "1.4", f"""
        given /a {{"x":1}}
        POST /a.json {body} | {name}: {method}
        < 200 {answer}
        now /a {after}
    """)
    for name, method, body, answer, after in [
        ("X-HTTP-Method-Override", "PUT", '{"y":2}', '{"y":2}', '{"y":2}'),
        ("X-HTTP-Method-Override", "PATCH", '{"y":2}', '{"y":2}', '{"x":1,"y":2}'),
        ("X-HTTP-Method-Override", "DELETE", '""', "null", "null"),
        ("X-HTTP-Method-Override", "GET", '""', '{"x":1}', '{"x":1}'),
    ]
] + [
    row("the name of the override header is case-insensitive", "1.4", """
        given /a 1
        POST /a.json | x-http-method-override: DELETE
        < 200 null
        now /a null
    """),
    row("the override may be a parameter, in any case", "1.4", """
        given /a 1
        POST /a.json?x-http-method-override=PUT 2
        < 200 2
        POST /a.json?X-HTTP-Method-Override=DELETE
        < 200 null
        now /a null
    """),
    row("only a POST is overridden", "1.4", """
        given /a 1
        GET /a.json | X-HTTP-Method-Override: DELETE
        < 200 1
        PUT /a.json 2 | X-HTTP-Method-Override: DELETE
        < 200 2
        PATCH /a.json?x-http-method-override=DELETE {"b":1}
        < 200 {"b":1}
        now /a {"b":1}
    """),
    row("an unknown override is refused", "1.4", """
        POST /a.json 1 | X-HTTP-Method-Override: EXPLODE
        < 400 error
        now / null
    """),
    row("an overridden request obeys the rules of its new method", "1.4", """
        POST /a.json [1] | X-HTTP-Method-Override: PATCH
        < 400 error Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?
        given /a 1
        POST /a.json 2 | X-HTTP-Method-Override: PUT | if-match: null_etag
        < 412 1
    """),
]

ROWS = PATHS + ILLEGAL_PATHS + DATABASES + OVERRIDES
