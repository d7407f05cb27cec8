"""How answers are framed: JSON text, header fields, arrays, CORS, JSONP, downloads, gzip (§3)."""

import base64
import concurrent.futures
import gzip
import random
import socket

from exchange import row
from rest_client import Rest, Wire, compact

CHUNKED_ABOVE = 1 << 20  # bytes; larger answers are sent chunked (§13)


def ordinary_fields(world):
    rest = Rest(world.port, world.ns)
    for method, body in [("PUT", '{"b":1}'), ("GET", None), ("PATCH", '{"c":1}'), ("POST", "1"), ("DELETE", None)]:
        response = rest.ask(method, "/a.json", body).expect(200)
        found = {name: response.header(name) for name in (
            "Content-Type", "Cache-Control", "Access-Control-Allow-Origin", "Content-Length", "Connection",
            "Strict-Transport-Security", "Access-Control-Allow-Credentials", "Content-Encoding",
        )}
        assert found == {
            "Content-Type": "application/json; charset=utf-8",
            "Cache-Control": "no-cache",
            "Access-Control-Allow-Origin": "*",
            "Content-Length": str(len(response.body)),
            "Connection": "keep-alive",
            "Strict-Transport-Security": None,
            "Access-Control-Allow-Credentials": None,
            "Content-Encoding": None,
        }, (method, response)
        exposed = response.header("Access-Control-Expose-Headers") or ""
        assert {"etag", "x-request-id"} <= {name.strip().lower() for name in exposed.split(",")}, response


def names(value):
    return {name.strip().upper() for name in (value or "").split(",")}


def preflight(world):
    rest = Rest(world.port, world.ns)
    response = rest.ask("OPTIONS", "/a.json", fields=[
        ("Origin", "http://localhost:3000"),
        ("Access-Control-Request-Method", "PUT"),
        ("Access-Control-Request-Headers", "if-match,x-firebase-etag"),
    ]).expect(200, b"")
    assert response.header("Access-Control-Allow-Origin") == "*", response
    allowed = names(response.header("Access-Control-Allow-Methods"))
    assert {"GET", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"} <= allowed, response
    assert names(response.header("Access-Control-Allow-Headers")) == {"IF-MATCH", "X-FIREBASE-ETAG"}, response
    assert response.header("Access-Control-Max-Age") == "3600", response
    assert response.header("Access-Control-Allow-Credentials") is None, response


def big_value(size):
    """About `size` bytes of JSON that compress well, all ASCII."""
    return {f"key{number:06d}": "x" * 80 for number in range(size // 94)}


def gzip_answers(world):
    rest = Rest(world.port, world.ns)
    value = big_value(40_000)
    rest.put("/big", value)
    rest.put("/small", "x")
    plain = rest.ask("GET", "/big.json").expect(200, compact(value))
    assert plain.header("Content-Encoding") is None, plain
    for accepted in ("gzip", "deflate, gzip;q=1.0, *;q=0.5"):
        packed = rest.ask("GET", "/big.json", fields=[("Accept-Encoding", accepted)]).expect(200)
        assert packed.header("Content-Encoding") == "gzip", packed
        assert packed.header("Vary") == plain.header("Vary") == "Accept-Encoding", packed
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < len(plain.body) / 5
        bare = rest.ask("HEAD", "/big.json", fields=[("Accept-Encoding", accepted)]).expect(200, b"")
        assert bare.fields == packed.fields, bare
    for refused in ("identity", "gzip;q=0", "gzip;q=0.0, identity"):
        response = rest.ask("GET", "/big.json", fields=[("Accept-Encoding", refused)])
        response.expect(200, plain.body)
    refused = rest.ask("GET", "/big.json", fields=[("Accept-Encoding", "gzip"), ("Accept", "text/event-stream"),
                                                   ("if-match", "x")])
    assert refused.header("Content-Encoding") is None, refused
    small = rest.ask("GET", "/small.json", fields=[("Accept-Encoding", "gzip")]).expect(200, '"x"')
    assert small.header("Content-Encoding") is None, small


def gzip_large_answers(world):
    """Chunked, and the connection goes on behind it; a client that reads slowly gets it whole, and delays no other."""
    rest = Rest(world.port, world.ns)
    value = big_value(6_000_000)
    rest.put("/big", value)
    with Wire(world.port, receive_buffer=4096) as wire:
        fields = [("Accept-Encoding", "gzip")]
        request = wire.request_bytes("GET", f"/big.json?ns={world.ns}", fields=fields)
        wire.send(request * 5 + wire.request_bytes("GET", f"/none.json?ns={world.ns}", fields=fields))
        rest.get("/none")
        for _ in range(5):
            packed = wire.receive().expect(200)
            assert packed.header("Content-Encoding") == "gzip", packed
            assert packed.header("Transfer-Encoding") == "chunked", packed
            assert gzip.decompress(packed.body) == compact(value).encode()
        wire.receive().expect(200, "null")
    with Wire(world.port) as wire:  # an old client gets it until the end
        wire.send(wire.head("GET", f"/big.json?ns={world.ns}", fields, version="1.0"))
        packed = wire.receive().expect(200)
        assert packed.header("Transfer-Encoding") is None, packed
        assert gzip.decompress(packed.body) == compact(value).encode()


def gzip_of_many(world):
    """More compressed answers at once than there is memory for: the others come as they are."""
    rest = Rest(world.port, world.ns)
    noise = random.Random(1)  # hardly compresses: none of them fits into what a socket takes unread
    value = {f"key{number:06d}": base64.b64encode(noise.randbytes(450)).decode() for number in range(1500)}
    rest.put("/big", value)
    wires = [Wire(world.port, receive_buffer=4096) for _ in range(70)]

    def receive(wire):
        wire.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        return wire.receive().expect(200)

    try:
        for wire in wires:
            wire.send(wire.request_bytes("GET", f"/big.json?ns={world.ns}", fields=[("Accept-Encoding", "gzip")]))
        rest.get("/none")  # they do not read yet, and delay no other client
        # All of them read from now on: on a slow machine the last one would have waited until it is disconnected.
        with concurrent.futures.ThreadPoolExecutor(len(wires)) as readers:
            for response in readers.map(receive, wires):
                body = gzip.decompress(response.body) if response.header("Content-Encoding") else response.body
                assert body == compact(value).encode()
    finally:
        for wire in wires:
            wire.close()


def large_answers(world):
    rest = Rest(world.port, world.ns)
    for size, is_chunked in [(CHUNKED_ABOVE // 2, False), (3 * CHUNKED_ABOVE, True)]:
        value = big_value(size)
        rest.put("/big", value)
        response = rest.ask("GET", "/big.json").expect(200, compact(value))
        assert (response.header("Transfer-Encoding") == "chunked") is is_chunked, response.fields
        rest.ask("GET", "/nothing.json").expect(200, "null")


def large_answer_to_an_old_client(world):
    """HTTP/1.0 knows no chunks."""
    rest = Rest(world.port, world.ns)
    value = big_value(2 * CHUNKED_ABOVE)
    rest.put("/big", value)
    with Wire(world.port) as wire:
        wire.send(wire.head("GET", f"/big.json?ns={world.ns}", host=None, version="1.0"))
        response = wire.receive().expect(200, compact(value))
        assert response.header("Transfer-Encoding") is None, response.fields


def jsonp(world):
    rest = Rest(world.port, world.ns)
    rest.put("/a", {"b": "x"})
    for name in ("cb", "jQuery_1.cb$", "window.cbs[3]", "c" * 128):
        response = rest.ask("GET", f"/a.json?callback={name}").expect(200, f'{name}({{"b":"x"}});')
        assert response.header("Content-Type") == "application/javascript; charset=utf-8", response
        assert response.header("X-Content-Type-Options") == "nosniff", response
    for name in ("alert(1)", "a%20b", "a;b", "%3Cscript%3E", "c" * 129, "", "a/*", "a%0Ab"):
        response = rest.ask("GET", f"/a.json?callback={name}")
        assert response.header("Content-Type") != "application/javascript; charset=utf-8", (name, response)
        assert response.status == 400 or response.text == '{"b":"x"}', (name, response)


def jsonp_is_a_script(world):
    """U+2028 and U+2029 end a line of a script of old; in JSON they are text like any other."""
    rest = Rest(world.port, world.ns)
    rest.put("/a", {"k\u2028": "x\u2029", "l": ["\u2028\u2028", {"\u2029": "\u202a\u2027"}]})
    plain = '{"k\u2028":"x\u2029","l":["\u2028\u2028",{"\u2029":"\u202a\u2027"}]}'
    escaped = plain.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029")
    rest.ask("GET", "/a.json").expect(200, plain)
    rest.ask("GET", "/a.json?callback=cb").expect(200, f"cb({escaped});")
    rest.ask("GET", "/a.json?callback=cb&shallow=true").expect(200, r'cb({"k\u2028":true,"l":true});')
    pretty = rest.ask("GET", "/a.json?callback=cb&print=pretty").expect(200)
    assert "\u2028" not in pretty.text and r"\u2028" in pretty.text
    # Over the pieces of a long answer too.
    rest.put("/a", {f"{number:05}\u2028": "\u2029" * 40 for number in range(20_000)})
    long = rest.ask("GET", "/a.json?callback=cb").expect(200).text
    assert "\u2028" not in long and "\u2029" not in long and long.count(r"\u2029") == 800_000
    rest.put("/a", None)


def json_numbers(world):
    rest = Rest(world.port, world.ns)
    for sent, got in [
        ("1.0", "1"), ("1e3", "1000"), ("-0", "0"), ("-0.0", "0"), ("0.1", "0.1"), ("-1.50", "-1.5"), ("1E-2", "0.01"),
        ("9007199254740993", "9007199254740993"), ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"), ("12345678901234567890123e-2", "123456789012345680000"),
    ]:
        response = rest.ask("PUT", "/n.json", sent).expect(200)
        assert float(response.text) == float(got), (sent, response)
        if "." in got or len(got) < 20:
            response.expect(200, got)
        rest.ask("GET", "/n.json").expect(200, response.body)
    for bad in ("1e400", "-1e400", "NaN", "Infinity", "01", "+1", "1.", ".5", "0x10"):
        rest.ask("PUT", "/n.json", bad).expect_error(400)


ARRAYS = [
    row(f"{keys} come out as {answer}", "3.1", f"""
        given /a {keys}
        GET /a.json
        < 200 {answer}
    """)
    for keys, answer in [
        ('{"0":"a"}', '["a"]'),
        ('{"1":"a"}', '[null,"a"]'),
        ('{"2":"a"}', '{"2":"a"}'),
        ('{"1":"a","2":"b"}', '[null,"a","b"]'),
        ('{"0":"a","3":"b"}', '["a",null,null,"b"]'),
        ('{"0":"a","4":"b"}', '{"0":"a","4":"b"}'),
        ('{"0":"a","9":"b"}', '{"0":"a","9":"b"}'),
        ('{"0":"a","x":"b"}', '{"0":"a","x":"b"}'),
        ('{"00":"a"}', '{"00":"a"}'),
        ('{"0":"a","01":"b"}', '{"0":"a","01":"b"}'),
        ('{"-1":"a","0":"b"}', '{"-1":"a","0":"b"}'),
        ('{"o":{"0":{"0":true}}}', '{"o":[[true]]}'),
    ]
] + [
    row("the third key of `0 and 3` would make it three of four", "3.1", """
        given /a {"0":"a","1":"b","3":"d"}
        GET /a.json
        < 200 ["a","b",null,"d"]
    """),
    row("an array on input is an object with the names 0, 1, …", "3.1", """
        PUT /a.json ["x",null,{"y":[1]}]
        < 200 ["x",null,{"y":[1]}]
        GET /a/2/y/0.json
        < 200 1
        GET /a/1.json
        < 200 null
    """),
    row("an export never makes arrays", "3.1", """
        given /a ["x",{"y":[1,2]}]
        GET /a.json?format=export
        < 200 {"0":"x","1":{"y":{"0":1,"1":2}}}
    """),
    row("a shallow answer never makes arrays", "3.1", """
        given /a ["x","y"]
        GET /a.json?shallow=true
        < 200 {"0":true,"1":true}
    """),
    row("a query's result may be an array", "3.1", """
        given /a ["x","y","z"]
        GET /a.json?orderBy="$key"&startAt="1"
        < 200 [null,"y","z"]
        GET /a.json?orderBy="$key"&startAt="2"
        < 200 {"2":"z"}
    """),
]

TEXT = [
    row("JSON is compact", "3", """
        PUT /a.json { "b" : { "c" : [ 1, 2 ] } , "d" : "x y" }
        < 200 {"b":{"c":[1,2]},"d":"x y"}
        GET /a.json
        < 200 {"b":{"c":[1,2]},"d":"x y"}
    """),
    row("print=pretty indents every level by two", "3", r"""
        given /a {"b":{"c":1,"d":"x"},"e":true}
        GET /a.json?print=pretty
        < 200 exactly "{\n  \"b\" : {\n    \"c\" : 1,\n    \"d\" : \"x\"\n  },\n  \"e\" : true\n}\n"
    """),
    row("print=pretty ends a primitive with a new line", "3", r"""
        given /a "x"
        GET /a.json?print=pretty
        < 200 exactly "\"x\"\n"
        GET /nothing.json?print=pretty
        < 200 exactly "null\n"
    """),
    row("print=pretty is the same JSON, arrays and all", "3", """
        given /a {"b":[1,{"c":[true]}],"d":"a\\nb"}
        GET /a.json?print=pretty
        < 200 like {"b":[1,{"c":[true]}],"d":"a\\nb"}
    """),
    row("print=pretty works for writes", "3", r"""
        PUT /a.json?print=pretty {"b":1}
        < 200 exactly "{\n  \"b\" : 1\n}\n"
        PATCH /a.json?print=pretty {"c":2}
        < 200 exactly "{\n  \"c\" : 2\n}\n"
        DELETE /a.json?print=pretty
        < 200 exactly "null\n"
    """),
    row("children come in key order: integers by value, then text", "5.2", """
        PUT /a.json {"b":1,"10":2,"9":3,"A":4,"010":5,"-1":6,"é":7}
        < 200 {"-1":6,"9":3,"10":2,"010":5,"A":4,"b":1,"é":7}
        GET /a.json
        < 200 {"-1":6,"9":3,"10":2,"010":5,"A":4,"b":1,"é":7}
    """),
    row("numbers are as short as they can be", "3", json_numbers),
    row("text comes out as UTF-8", "3", """
        PUT /a.json "\\u00e9\\ud83d\\udc35\\u2028"
        < 200 like "é🐵\\u2028"
        GET /a.json
        < 200 like "é🐵\\u2028"
    """),
]

FIELDS = [
    row("every answer carries the ordinary fields", "3", ordinary_fields),
    row("a preflight allows every method and echoes the fields asked for", "3.2", preflight),
    row("a preflight needs no permission", "3.2", """
        OPTIONS /a.json
        < 200 empty
    """, mode="locked"),
    row("an answer to a refusal may be read by browser code too", "3.2", """
        GET /a.json
        < 401 error Permission denied
        < Access-Control-Allow-Origin: *
    """, mode="locked"),
    row("a callback makes JavaScript; what is no name does not", "3.3", jsonp),
    row("a callback's line separators are escaped", "3.3", jsonp_is_a_script),
    row("a callback is nothing to a write", "3.3", """
        PUT /a.json?callback=cb 1
        < 200 1
    """),
    row("download names the file", "3.4", """
        given /a {"b":1}
        GET /a.json?download=name.json
        < 200 {"b":1}
        < Content-Disposition: attachment; filename="name.json"
        GET /a.json
        < no Content-Disposition
    """),
    row("quotes, separators and control characters are cut from a download's name", "3.4", """
        GET /a.json?download=a%22b%2Fc%5Cd%0D%0AX-Evil%3A%201.json
        < 200 null
        < Content-Disposition: matches attachment; filename="[^"/\\\\\\r\\n]*"
        < no X-Evil
    """),
    row("a name beyond ASCII is stated in UTF-8, too", "3.4", """
        GET /a.json?download=Z%C3%BCrich.json
        < 200 null
        < Content-Disposition: attachment; filename="Z_rich.json"; filename*=UTF-8''Z%C3%BCrich.json
    """),
    row("gzip is only for clients that accept it, and not for small responses", "3", gzip_answers),
    row("large answers are compressed while they are sent", "3", gzip_large_answers),
    row("seventy compressed answers at once", "3", gzip_of_many),
    row("answers over 1 MiB are chunked, others have a length", "13", large_answers),
    row("an HTTP/1.0 client never gets chunks", "13", large_answer_to_an_old_client),
]

ROWS = ARRAYS + TEXT + FIELDS
