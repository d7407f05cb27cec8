"""Which database a connection speaks to (§1.3)."""

import json

from transcript import FRAMES, case


def isolated(world):
    one, two = world.connect(ns=world.ns + "-one"), world.client(ns=world.ns + "-two")
    listen = two.listen("/")
    one.must("p", {"p": "/a", "d": 1})
    two.sync()
    assert listen.node is None and two.connection.get("/a") is None and one.get("/a") == 1


def case_insensitive(world):
    world.connect(ns=world.ns.upper()).must("p", {"p": "/a", "d": 1})
    assert world.connect(ns=world.ns.title()).get("/a") == 1
    assert world.connect(ns=world.ns).get("/a") == 1


def host(pattern, ns=None):
    """Writes through a connection whose Host is `pattern` with the namespace's name put in, and no `ns`."""

    def play(world):
        query = "v=5" if ns is None else f"v=5&ns={ns}"
        through_host = world.connect(query=query, host=pattern.format(world.ns, world.port))
        through_host.must("p", {"p": "/a", "d": 1})
        through_host.close()
        assert world.connect().get("/a") == 1

    return play


def capital_label(world):
    """By hand, since client libraries make hosts lower-case."""
    host = f"{world.ns.upper()}.Firebaseio.Localhost:{world.port}"
    raw = world.raw(path="/.ws?v=5", host=host)
    assert json.loads(raw.receive_text())["d"]["d"]["h"] == host
    raw.send_frame('{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}')
    assert json.loads(raw.receive_text())["d"]["b"]["s"] == "ok"
    assert world.connect().get("/a") == 1


def parameter_wins(world):
    connection = world.connect(host=f"other.firebaseio.localhost:{world.port}")
    connection.must("p", {"p": "/a", "d": 1})
    connection.close()
    assert world.connect().get("/a") == 1
    assert world.connect(ns="other").get("/a") is None


def made_on_first_use(world):
    fresh = world.connect(ns=world.ns + "-never-seen")
    assert fresh.get("/") is None
    fresh.must("p", {"p": "/a", "d": 1})
    assert world.connect(ns=world.ns + "-never-seen").get("/a") == 1


def two_labels(world):
    """`demo.localhost` names no database: without `ns` the default one is meant, as over REST."""
    path = f"/{world.ns}"
    named = world.connect(ns="default")
    for host in (f"{world.ns}.localhost:{world.port}", "localhost", "[::1]:9000", "127.0.0.1"):
        named.must("p", {"p": path, "d": host})
        connection = world.connect(query="v=5", host=host)
        assert connection.get(path) == host
        connection.close()
    named.must("p", {"p": path, "d": None})


CASES = [
    case("two namespaces share nothing", "1.3", isolated),
    case("namespaces compare case-insensitively", "1.3", case_insensitive),
    case("the first label of a host with three labels", "1.3", host("{}.firebaseio.localhost:{}")),
    case("the first label of a host with four labels", "1.3", host("{}.europe-west1.firebasedatabase.localhost:{}")),
    case("the first label of demo.test.localhost without a port", "1.3", host("{}.test.localhost")),
    case("a host with fewer labels names none: the default one is meant", "1.3", two_labels),
    case("an empty ns counts as none", "1.3", host("{}.firebaseio.localhost:{}", ns="")),
    case("a capital host label names the same namespace", "1.3", capital_label, over=FRAMES),
    case("ns wins over the host label", "1.3", parameter_wins),
    case("in --dev a namespace is made on first use", "1.3", made_on_first_use),
]
