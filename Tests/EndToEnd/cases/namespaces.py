"""Which database a connection speaks to (section 1.3)."""

import json

from pando_client import Connection
from transcript import case


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
        through_host = Connection(world.port, query=query, host=pattern.format(world.ns, world.port))
        through_host.must("p", {"p": "/a", "d": 1})
        through_host.close()
        assert world.connect().get("/a") == 1

    return play


def capital_label(world):
    """By hand, since client libraries make hosts lower-case."""
    host = f"{world.ns.upper()}.Firebaseio.Test:{world.port}"
    raw = world.raw(path="/.ws?v=5", host=host)
    assert json.loads(raw.receive_text())["d"]["d"]["h"] == host
    raw.send_frame('{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":1}}}')
    assert json.loads(raw.receive_text())["d"]["b"]["s"] == "ok"
    assert world.connect().get("/a") == 1


def parameter_wins(world):
    connection = Connection(world.port, ns=world.ns, host=f"other.firebaseio.test:{world.port}")
    connection.must("p", {"p": "/a", "d": 1})
    connection.close()
    assert world.connect().get("/a") == 1
    assert world.connect(ns="other").get("/a") is None


def made_on_first_use(world):
    fresh = world.connect(ns=world.ns + "-never-seen")
    assert fresh.get("/") is None
    fresh.must("p", {"p": "/a", "d": 1})
    assert world.connect(ns=world.ns + "-never-seen").get("/a") == 1


CASES = [
    case("two namespaces share nothing", "1.3", isolated),
    case("namespaces compare case-insensitively", "1.3", case_insensitive),
    case("the first label of a host with three labels", "1.3", host("{}.firebaseio.test:{}")),
    case("the first label of a host with four labels", "1.3", host("{}.europe-west1.firebasedatabase.test:{}")),
    case("the first label of demo.localhost.test without a port", "1.3", host("{}.localhost.test")),
    case("an empty ns counts as none", "1.3", host("{}.firebaseio.test:{}", ns="")),
    case("a capital host label names the same namespace", "1.3", capital_label),
    case("ns wins over the host label", "1.3", parameter_wins),
    case("in --dev a namespace is made on first use", "1.3", made_on_first_use),
]
