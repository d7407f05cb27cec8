"""A server without --dev and without rules: everything is denied, and every connection lives (15.9, 1.3)."""

from pando_client import Closed
from transcript import case

DENIED = "permission_denied"


def locked(name, script, section="15.9"):
    return case(name, section, f"A opens ns=default\n{script}\nA> s {{\"c\":{{}}}}\nA< ok", mode="locked")


def unknown_namespace(world):
    """The transport is accepted; instead of a handshake comes a shutdown, then the end."""
    connection = world.connect(ns="no-such-namespace", handshake=False)
    message = connection.receive()
    assert message["t"] == "c" and message["d"]["t"] == "s", message
    reason = message["d"]["d"]
    assert isinstance(reason, str) and "Firebase Realtime Database" in reason, reason
    try:
        raise AssertionError(f"after the shutdown came {connection.receive()}")
    except Closed:
        pass


def no_namespace(world):
    """A host without three labels and no `ns`: the one database that always exists."""
    connection = world.connect(query="v=5", host=f"127.0.0.1:{world.port}")
    assert connection.ask("p", {"p": "/a", "d": 1})["s"] == DENIED


def shared_secret_denied(world):
    """Neither the emulator's admin nor an unsigned token is worth anything without --dev."""
    for credential in (
        "owner", "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1MSIsImlhdCI6MX0.",
        "eyJhbGciOiJub25lIn0=.eyJzdWIiOiJ1In0=.",
    ):
        connection = world.connect(ns="default")
        for verb in ("auth", "gauth"):
            try:
                assert connection.ask(verb, {"cred": credential})["s"] != "ok", (verb, credential)
                assert connection.ask("p", {"p": "/a", "d": 1})["s"] == DENIED
            except Closed:
                break  # a server may end a connection whose credential failed
        connection.close()


CASES = [
    locked("a listen is denied and no push follows", f"""
        A> q {{"p":"/secret","h":""}}
        A< refused {DENIED}
        A< nothing
    """),
    locked("a filtered listen is denied", f"""
        A> q {{"p":"/secret","q":{{"l":1,"vf":"l"}},"t":1,"h":""}}
        A< refused {DENIED}
    """),
    locked("a put is denied", f"""
        A> p {{"p":"/secret/x","d":1}}
        A< refused {DENIED}
    """),
    locked("a merge is denied", f"""
        A> m {{"p":"/secret","d":{{"x":1,"y":null}}}}
        A< refused {DENIED}
    """),
    locked("a merge of nothing is a no-op that succeeds", """
        A> m {"p":"/secret","d":{}}
        A< ok
        A> om {"p":"/secret","d":{}}
        A< ok
    """, "4.6"),
    locked("a get is denied", f"""
        A> g {{"p":"/secret","q":{{}}}}
        A< refused {DENIED}
    """),
    locked("a transaction is denied, not stale", f"""
        A> p {{"p":"/secret/n","d":1,"h":"w28swksk9+tXf5jEdS9R5oSFAv8="}}
        A< refused {DENIED}
    """),
    locked("onDisconnect operations are denied", f"""
        A> o {{"p":"/secret","d":1}}
        A< refused {DENIED}
        A> om {{"p":"/secret","d":{{"x":1}}}}
        A< refused {DENIED}
    """),
    locked("the text of a denial is Permission denied", """
        A> raw {"t":"d","d":{"r":77,"a":"p","b":{"p":"/x","d":1}}}
        A< raw {"t":"d","d":{"r":77,"b":{"s":"permission_denied","d":"Permission denied"}}}
    """),
    locked("unlisten and stats still work", """
        A> n {"p":"/secret"}
        A< ok
    """),
    case("an unknown namespace gets a shutdown instead of a handshake", "1.3", unknown_namespace, mode="locked"),
    case("no namespace at all is the default one", "1.3", no_namespace, mode="locked"),
    case("owner and unsigned tokens are refused", "4.7", shared_secret_denied, mode="locked"),
]
