"""`/.inspect/history.json` of a real server: what a location held, who wrote there, and since when that is known."""

import json
import random
import shutil
import time
import urllib.parse

import pytest

import tokens
from issuer import hs256
from pando_client import DEADLINE, Connection
from rest_client import OWNER, Rest, Wire
from server import run
from test_checkpoints import FIXTURES, SMALL
from waiting import wait_for


def owner(server, ns="default"):
    return Rest(server.port, ns, fields=[OWNER])


def history(server, path, status=200, ns="default", **parameters):
    query = urllib.parse.urlencode({"path": path} | parameters)
    return owner(server, ns).ask("GET", f"/.inspect/history.json?{query}").expect(status).json()


def put(server, path, value, *fields):
    Rest(server.port, "default", fields=list(fields)).ask("PUT", f"{path}.json", json.dumps(value)).expect(200)


def as_user(uid):
    return ("Authorization", f"Bearer {tokens.unsigned(uid)}")


def test_who_wrote_what_and_when(servers):
    server = servers()
    put(server, "/a/b", 1)
    put(server, "/a/b", 2, as_user("ann"))
    put(server, "/a", {"b": 3, "c": 4}, OWNER)
    put(server, "/other", 1)
    put(server, "/a/b/.priority", 7, as_user("bob"))
    owner(server).ask("PATCH", "/.json", json.dumps({"a/b": 5, "a/d": 6, "x": 1})).expect(200)
    found = history(server, "/a/b")
    assert found["value"] == 5 and found["more"] is False
    assert [(write["uid"], write["by"], write["path"], write["count"]) for write in found["writes"]] == [
        (None, "administrator", "/a/b", 1),
        ("bob", "user", "/a/b/.priority", 1),
        (None, "administrator", "/a", 1),
        ("ann", "user", "/a/b", 1),
        (None, "anonymous", "/a/b", 1),
    ]
    sequences = [write["sequence"] for write in found["writes"]]
    assert sequences == sorted(sequences, reverse=True)
    assert found["since"] <= found["writes"][-1]["time"] <= found["writes"][0]["time"] <= found["at"]
    assert history(server, "/a")["writes"][0]["count"] == 2, "two of its locations"
    assert history(server, "/never/there") | {"at": 0, "since": 0} == {
        "at": 0, "since": 0, "value": None, "writes": [], "more": False}
    assert history(server, "/a", at=5)["value"] is None, "before the first record there was nothing"
    assert history(server, "/a/b", format="export", at=found["writes"][1]["time"])["value"] is not None


def test_only_the_writes(servers):
    server = servers()
    put(server, "/a", 1)
    put(server, "/a", 2)
    whole = history(server, "/a")
    part = history(server, "/a", part="writes")
    assert "value" not in part and part["writes"] == whole["writes"] and len(part["writes"]) == 2


def test_published_rules(servers):
    server = servers()
    texts = [f'{{"rules": {{".read": "auth.uid === \'{number}\'"}}}} // \u00e9' for number in range(25)]
    assert history(server, "/", part="rules")["rules"] == []
    for text in texts:
        owner(server).ask("PUT", "/x.json", "1").expect(200)
        owner(server).ask("PUT", "/.settings/rules.json", text).expect(200)
    owner(server).ask("PUT", "/.settings/rules.json?dryRun=true", '{"rules": {}}').expect(200)
    owner(server, "other").ask("PUT", "/.settings/rules.json", '{"rules": {}}').expect(200)
    server.restart()
    found = history(server, "/", part="rules")
    assert [entry["source"] for entry in found["rules"]] == texts[:4:-1] and found["more"] is True, "at most 20"
    assert "writes" not in found and "value" not in found
    rest = history(server, "/", part="rules", before=found["rules"][-1]["sequence"])
    assert [entry["source"] for entry in rest["rules"]] == texts[4::-1] and rest["more"] is False
    times = [entry["time"] for entry in found["rules"]]
    assert times == sorted(times, reverse=True)
    assert [entry["source"] for entry in history(server, "/", part="rules", limit=2)["rules"]] == texts[:22:-1]


def test_who_published_rules(servers, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0f" * 32)
    server = servers(arguments=["--auth-secret-file", secret, "--allow-secret-as-admin"])
    now = int(time.time())
    carol = hs256(bytes.fromhex("0f" * 32), {"sub": "carol", "admin": True, "iat": now, "exp": now + 600})
    for token in ["owner", carol, "0f" * 32]:
        rest = Rest(server.port, "default", fields=[tokens.bearer(token)])
        rest.ask("PUT", "/.settings/rules.json", json.dumps({"rules": {"x": {".validate": f"newData.val() !== '{len(token)}'"}}})).expect(200)
    server.restart()
    rules = history(server, "/", part="rules")["rules"]
    assert [entry["uid"] for entry in rules] == [None, "carol", None]
    log = run("log", server.data).stdout
    assert "\tadministrator, user carol\n" in log and log.count("\trules\t") == 3, "pando log names the publisher"


def test_ends_of_sessions_are_written_by_who_queued_them(servers):
    server = servers()
    with Connection(server.port, "default") as connection:
        connection.must("auth", {"cred": tokens.unsigned("eve")})
        connection.must("o", {"p": "/on/line", "d": False})
    wait_for(lambda: history(server, "/on")["writes"], "end of the session")
    (write,) = history(server, "/on")["writes"]
    assert (write["uid"], write["by"], write["onDisconnect"]) == ("eve", "user", True)
    # A session that dies with the server, too.
    connection = Connection(server.port, "default")
    connection.must("auth", {"cred": tokens.unsigned("bob")})
    connection.must("o", {"p": "/on/line", "d": True})
    server.restart()
    found = history(server, "/on/line")
    assert found["value"] is True and [write["uid"] for write in found["writes"]] == ["bob", "eve"]


def test_random_writes_and_what_was_there_after_each(servers):
    """Across kill -9, checkpoints and removed segments; the seed is in the failure."""
    seed = 77
    choose = random.Random(seed)
    server = servers(arguments=SMALL)
    model, moments = {}, []
    for number in range(120):
        key, value = f"k{choose.randrange(5)}", f"{number} " + "x" * choose.choice([1, 100, 20_000])
        before = time.time_ns() // 10**6
        put(server, f"/tree/{key}", value, as_user(f"u{number % 3}"))
        model = model | {key: value}
        moments.append((history(server, "/tree", limit=1)["writes"][0], model, f"u{number % 3}", before))
        if number in (40, 80):
            server.restart()
    server.restart()
    since = history(server, "/")["since"]
    kept = [moment for moment in moments if moment[0]["time"] >= since]
    assert len(kept) > 3
    for index in choose.sample(range(len(kept)), min(len(kept), 25)):
        write, _, uid, before = kept[index]
        # Several writes may have come within one millisecond: the last of them counts.
        after = [model for other, model, _, _ in kept if other["time"] == write["time"]][-1]
        answer = owner(server).ask("GET", f"/.inspect/history.json?path=/tree&at={write['time']}")
        if answer.status == 410:
            # A checkpoint that the start has begun has moved the reach.
            assert answer.json()["since"] > write["time"]
            continue
        found = answer.expect(200).json()
        assert found["value"] == after, f"seed {seed}, write {index}"
        assert write["uid"] == uid and write in found["writes"] and write["time"] >= before - 1
        for key, value in after.items():
            part = owner(server).ask("GET", f"/.inspect/history.json?path=/tree/{key}&limit=1&at={write['time']}")
            assert part.status == 410 or part.expect(200).json()["value"] == value
    listed, before = [], {}
    while True:
        page = history(server, "/tree", limit=7, **before)
        listed += page["writes"]
        if not page["more"]:
            break
        before = {"before": page["writes"][-1]["sequence"]}
    assert listed == [moment[0] for moment in reversed(moments)][: len(listed)] and listed


def test_beyond_the_reach_it_says_since_when(servers):
    server = servers(arguments=SMALL)
    put(server, "/a", "first")
    first = history(server, "/a")["writes"][0]["time"]
    with Connection(server.port, "default") as connection:
        number = 0
        deadline = time.monotonic() + 3 * DEADLINE
        while (server.data / "journal-00000001-0000000000000001.log").exists():
            assert time.monotonic() < deadline, "the first segment is never removed"
            connection.must("p", {"p": f"/rows/{number % 50}", "d": "x" * 5000 + str(number)})
            number += 1
    gone = history(server, "/a", status=410, at=first)
    assert gone["error"] and gone["since"] > first
    # A checkpoint that is being written may move the reach once more.
    wait_for(lambda: owner(server).ask(
        "GET", f"/.inspect/history.json?path=/a&at={history(server, '/a')['since']}").status == 200, "reach that stays")
    found = history(server, "/a", at=history(server, "/a")["since"])
    assert found["value"] == "first", "the value is older than what is known of it"
    assert history(server, "/a")["writes"] == [], "who wrote it is not known any more"
    assert history(server, "/rows", limit=1)["more"] is True


def test_while_others_write_and_segments_go(servers):
    """Histories during writes, checkpoints and rotations: each answer is consistent in itself."""
    server = servers(arguments=SMALL)
    put(server, "/fixed", {"a": 1})
    with Connection(server.port, "default") as connection:
        for number in range(400):
            connection.must("p", {"p": "/rows", "d": {"n": number, "x": "x" * 5000}})
            if number % 8 == 0:
                found = history(server, "/rows", limit=2)
                assert found["value"]["n"] == number, "what is acknowledged is in the answer"
                assert found["writes"][0]["path"] == "/rows"
                assert history(server, "/fixed", limit=1)["value"] == {"a": 1}
    assert server.stderr(10**7).count(" records in ") >= 3, "checkpoints were written meanwhile"


def test_only_for_administrators(servers):
    server = servers()
    for fields in ([], [as_user("ann")]):
        Rest(server.port, "default", fields=fields).ask("GET", "/.inspect/history.json?path=/").expect_error(
            401, "Unauthorized request.")
    locked = servers(dev=False)
    Rest(locked.port, "default").ask("GET", "/.inspect/history.json?path=/").expect_error(401, "Unauthorized request.")


@pytest.mark.parametrize("query", [
    "", "path=/a.b", "path=/&at=x", "path=/&at=-1", "path=/&at=99999999999999999999", "path=/&limit=0", "path=/&limit=-1",
    "path=/&before=x", "path=/" + "a/" * 40,
])
def test_bad_parameters(servers, query):
    owner(servers()).ask("GET", f"/.inspect/history.json?{query}").expect_error(400)


def test_other_refusals(servers):
    server = servers()
    owner(server).ask("POST", "/.inspect/history.json?path=/", "1").expect_error(405)
    owner(server).ask("GET", "/.inspect/history.json?path=/&ns=not%20a%20name").expect_error(404)
    assert history(server, "/", limit=10**18)["writes"] == [], "a huge limit counts as the highest"
    assert history(server, "/", at=2**63 - 1)["at"] < 2**62, "the future counts as now"
    assert owner(servers(memory=True)).ask("GET", "/.inspect/history.json?path=/").expect(501).json()["error"]


def test_a_value_that_is_too_large(servers):
    server = servers()
    for number in range(5):
        put(server, f"/big/{number}", "x" * (8 << 20))
    assert "path below" in history(server, "/big", status=413)["error"]
    assert len(history(server, "/big/0")["value"]) == 8 << 20
    put(server, "/big", 1)
    assert history(server, "/big")["value"] == 1


def test_databases_have_their_own_history(servers):
    server = servers()
    Rest(server.port, "one").ask("PUT", "/a.json", "1").expect(200)
    Rest(server.port, "two").ask("PUT", "/a.json", "2").expect(200)
    for ns, value in (("one", 1), ("two", 2)):
        found = history(server, "/a", ns=ns)
        assert found["value"] == value and len(found["writes"]) == 1


def test_clients_that_hang_up_do_not_stop_it(servers):
    server = servers()
    put(server, "/a", "x" * (4 << 20))
    for _ in range(30):
        wire = Wire(server.port)
        wire.send(b"GET /.inspect/history.json?path=/a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\n\r\n")
        wire.close()
    # Those that were given up make room for others, at once or in a moment.
    def answers():
        return owner(server).ask("GET", "/.inspect/history.json?path=/a&limit=1").status == 200
    wait_for(answers, "answer")


def test_many_at_once(servers):
    server = servers()
    for number in range(200):
        put(server, f"/a/{number}", "x" * 1000)
    wires = [Wire(server.port) for _ in range(30)]
    for wire in wires:
        wire.send(b"GET /.inspect/history.json?path=/a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\n\r\n")
    statuses = [wire.receive("GET").status for wire in wires]
    assert 200 in statuses and set(statuses) <= {200, 503}


def test_a_directory_of_the_former_version(servers, tmp_path):
    """Its records have no writer; what is written now has one. The same directory is served again afterwards."""
    data = tmp_path / "old"
    shutil.copytree(FIXTURES / "version-1", data)
    server = servers(data=data)
    old = history(server, "/")
    assert old["writes"] and all(write["by"] == "unknown" and write["uid"] is None for write in old["writes"])
    put(server, "/new", 1, as_user("ann"))
    for _ in range(2):
        found = history(server, "/")
        assert found["writes"][0]["uid"] == "ann" and found["writes"][1:] == old["writes"]
        server.restart()
    log = run("log", data)
    assert log.returncode == 0 and "\tdelta\t/new = 1\tuser ann" in log.stdout, log.stdout
    assert run("check", "data", data).returncode == 0
