"""What must be refused, without closing the connection and without a trace (§8.6, §13.1, §17.2 #19)."""

import json

import tree
from transcript import case


def refused(name, action, body, section="8.6"):
    """The request's status is not ok, the connection lives, nothing is written and no push is sent."""

    def play(world):
        watcher = world.client()
        root = watcher.listen("/")
        connection = world.connect()
        connection.must("p", {"p": "/before", "d": 1})
        text = body if isinstance(body, str) else json.dumps(body)
        connection.waiting.append((9, action, None))
        connection.send_text(f'{{"t":"d","d":{{"r":9,"a":"{action}","b":{text}}}}}')
        answer = connection.response(9)
        assert answer["s"] != "ok" and isinstance(answer["d"], str), answer
        connection.must("p", {"p": "/after", "d": 2})
        assert connection.get("/") == {"before": 1, "after": 2}
        watcher.sync()
        assert tree.export(root.node) == {"before": 1, "after": 2}

    return case(f"{name} is refused", section, play)


def accepted(name, path, data, section="8.6"):
    def play(world):
        connection = world.connect()
        connection.must("p", {"p": path, "d": data})
        assert tree.same_json(connection.get(path), tree.export(tree.parse(data)))

    return case(f"{name} is accepted", section, play)


def nested(levels):
    """An object whose only leaf lies under this many keys."""
    value = 1
    for _ in range(levels):
        value = {"k": value}
    return value


FORBIDDEN = [(".", "dot"), ("$", "dollar"), ("#", "hash"), ("[", "left bracket"), ("]", "right bracket"), ("/", "slash")]
CONTROLS = [("\x00", "NUL"), ("\x01", "U+0001"), ("\n", "new line"), ("\x1f", "U+001F"), ("\x7f", "DEL")]


def string_at_the_limit(world):
    connection = world.connect()
    text = "a" * 10_485_760
    connection.must("p", {"p": "/a", "d": text})
    assert connection.get("/a") == text


CASES = [
    *[refused(f"a key with a {name}", "p", {"p": "/a", "d": {f"x{sign}y": 1}}) for sign, name in FORBIDDEN + CONTROLS],
    *[refused(f"a path with a {name}", "p", {"p": f"/a/x{sign}y", "d": 1}) for sign, name in FORBIDDEN[:5] + CONTROLS],
    *[refused(f"a merge path with a {name}", "m", {"p": "/a", "d": {f"x{sign}y": 1}}) for sign, name in FORBIDDEN[:5]],
    refused("an empty key", "p", {"p": "/a", "d": {"": 1}}),
    refused("a key that begins with a dot", "p", {"p": "/a", "d": {".other": 1}}, "8.2"),
    refused("an unknown dot key beside a value", "p", {"p": "/a", "d": {".value": 1, ".x": 2}}, "8.2"),
    refused("a deep forbidden key", "p", {"p": "/a", "d": {"b": {"c": [{"d$": 1}]}}}),
    refused("a path of 33 segments", "p", {"p": "/" + "/".join("k" * 33), "d": 1}, "17.2 #19"),
    refused("data of depth 33", "p", {"p": "/", "d": nested(33)}, "17.2 #19"),
    refused("path and data of 33 together", "p", {"p": "/a/b/c", "d": nested(30)}),
    refused("a merge entry of depth 33 in all", "m", {"p": "/a", "d": {"b/c": nested(30)}}),
    accepted("a path of 32 segments", "/" + "/".join("k" * 32), 1),
    accepted("data of depth 32", "/", nested(32)),
    refused("data of depth 100", "p", {"p": "/a", "d": nested(100)}),
    refused("a key of 769 bytes", "p", {"p": "/", "d": {"k" * 769: 1}}, "17.2 #19"),
    refused("a path segment of 769 bytes", "p", {"p": "/" + "k" * 769, "d": 1}, "17.2 #19"),
    refused("a key of 769 bytes in 257 characters", "p", {"p": "/", "d": {"漢" * 256 + "k": 1}}),
    accepted("a root child of 767 bytes", "/" + "k" * 767, 1),
    accepted("a root child of 767 bytes in many-byte characters", "/" + "é" * 383 + "k", 1),
    refused("a string over 10 MiB", "p", {"p": "/a", "d": "a" * 10_485_761}),
    case("a string of exactly 10 MiB is accepted and comes back", "8.6", string_at_the_limit),
    refused("a write to .info", "p", {"p": "/.info/connected", "d": True}, "13.1"),
    refused("a listen to .info", "q", {"p": "/.info/connected", "h": ""}, "13.1"),
    refused("a get of .info", "g", {"p": "/.info/serverTimeOffset", "q": {}}, "13.1"),
    refused("a merge into .info", "m", {"p": "/", "d": {".info/x": 1}}, "13.1"),
    refused("an onDisconnect put to .info", "o", {"p": "/.info/x", "d": 1}, "13.1"),
    refused("a dot segment in the middle of a path", "p", {"p": "/a/.priority/b", "d": 1}, "13.1"),
    refused("another dot segment at the end", "p", {"p": "/a/.value", "d": 1}, "13.1"),
    refused("a boolean priority", "p", {"p": "/a", "d": {".value": 1, ".priority": True}}, "8.2"),
    refused("an object priority", "p", {"p": "/a", "d": {".value": 1, ".priority": {"x": 1}}}, "8.2"),
    refused("an array priority", "p", {"p": "/a", "d": {"x": 1, ".priority": [1]}}, "8.2"),
    refused("a number that overflows", "p", '{"p":"/a","d":1e400}', "8.5"),
    refused("a negative number that overflows", "p", '{"p":"/a","d":{"x":-1e400}}', "8.5"),
    refused("a priority that overflows", "p", '{"p":"/a","d":{".value":1,".priority":1e999}}', "8.5"),
    refused("a lone high surrogate in a key", "p", r'{"p":"/a","d":{"\ud800":1}}'),
    refused("a lone low surrogate in a value", "p", r'{"p":"/a","d":"x\udc00y"}'),
    refused("a pair of surrogates in the wrong order", "p", r'{"p":"/a","d":"\udc35\ud83d"}'),
    refused("a lone surrogate in a path", "p", r'{"p":"/a\ud800","d":1}'),
    refused("a forbidden key in an onDisconnect put", "o", {"p": "/a", "d": {"x.y": 1}}, "12.2"),
    refused("depth 33 in an onDisconnect put", "o", {"p": "/a", "d": nested(32)}, "12.2"),
    refused("a forbidden key in an onDisconnect merge", "om", {"p": "/a", "d": {"x$": 1}}, "12.2"),
    refused("an overflowing number in an onDisconnect put", "o", '{"p":"/a","d":1e400}', "12.2"),
    case("many refusals leave the connection alive", "8.6", "\n".join(
        ['A> p {"p":"/a.b","d":1}'] * 50 + ["A< refused"] * 50 + ["A sets /a 1", "A sees /a 1"]
    )),
]
