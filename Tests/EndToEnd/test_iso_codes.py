"""Real data: the ISO code tables of Debian's iso-codes package, imported, watched, changed, killed, exported."""

import json
import pathlib
import random

import pytest

import server as server_module
import tree
from pando_client import CachedClient, Closed, Connection

FOLDER = pathlib.Path("/usr/share/iso-codes/json")
TABLES = [  # file, the name of its one member, the field whose value becomes the key, our name for it
    ("iso_3166-1.json", "3166-1", "alpha_2", "countries"),
    ("iso_3166-2.json", "3166-2", "code", "subdivisions"),
    ("iso_639-3.json", "639-3", "alpha_3", "languages"),
    ("iso_15924.json", "15924", "alpha_4", "scripts"),
]
LISTENS = [  # path, query (None: default listen)
    ("/countries", None),
    ("/languages", None),
    ("/scripts/Latn", None),
    ("/progress", None),
    ("/subdivisions", {"i": "type", "sp": "Province", "ep": "Province"}),
    ("/scripts", {"i": ".key", "sp": "L", "l": 20, "vf": "l"}),
    ("/countries", {"i": "name", "l": 10, "vf": "r"}),
    ("/languages", {"i": "name", "l": 50, "vf": "l"}),
    ("/subdivisions", {"i": "parent", "sp": "GB-ENG", "l": 30, "vf": "l"}),
]
ILLEGAL = str.maketrans({sign: "_" for sign in ".$#[]/"})


@pytest.fixture(scope="module")
def codes():
    """One tree of all tables, keyed by code."""
    if not FOLDER.exists():
        pytest.fail(f"{FOLDER} is missing: install the Debian package iso-codes (deploy/test does)")
    result = {}
    for file, member, field, name in TABLES:
        rows = json.loads((FOLDER / file).read_text())[member]
        result[name] = {
            row[field].translate(ILLEGAL): {key.translate(ILLEGAL): value for key, value in row.items()} for row in rows
        }
    assert len(result["languages"]) > 7000 and len(result["subdivisions"]) > 4000
    return result


def random_change(dice, codes, number):
    """The entries of one merge at the root: a real change, and `progress`, which numbers it."""
    kind = dice.choice(["rename", "remove", "add", "move", "several"])
    country, language = dice.choice(sorted(codes["countries"])), dice.choice(sorted(codes["languages"]))
    subdivision = dice.choice(sorted(codes["subdivisions"]))
    entries = {
        "rename": {f"countries/{country}/name": f"Country {number} 🐵"},
        "remove": {f"languages/{language}": None},
        "add": {f"subdivisions/XX-{number}": {"code": f"XX-{number}", "name": "new", "type": "Province"}},
        "move": {f"subdivisions/{subdivision}/type": dice.choice(["Province", "State"])},
        "several": {f"countries/{country}": None, f"languages/{language}/name": f"A {number}", "scripts/Latn/seen": number},
    }[kind]
    return {**entries, "progress": number}


def drain(client):
    """Everything that had reached this client before the server died."""
    try:
        while True:
            client.connection.pushes.append(client.connection.next_data()[1:])
    except Closed:
        return client.absorb()


def check(clients, model, when):
    for client in clients:
        for listen in client.cache.listens.values():
            node = tree.get(model, listen.path)
            want = node if listen.query is None else tree.window(node, listen.query)
            assert tree.simple_hash(listen.node) == tree.simple_hash(want), f"{when}: {listen.path} {listen.query}"


@pytest.mark.timeout(180)
def test_import_watch_change_kill_restart_converge_export(servers, codes, tmp_path):
    file, data = tmp_path / "codes.json", tmp_path / "data"
    file.write_text(json.dumps(codes, ensure_ascii=False))
    done = server_module.run("import", "--data", data, file)
    assert done.returncode == 0, done.stderr
    server = servers(data=data)
    model = tree.parse(codes)

    # Several independent clients, default and filtered listens mixed.
    clients = [CachedClient(server.port, "default") for _ in range(3)]
    for index, (path, query) in enumerate(LISTENS):
        clients[index % 3].listen(path, query, None if query is None else index)
    check(clients, model, "after the import")

    # Changes while they listen.
    dice = random.Random(2024)
    writer = Connection(server.port, "default")
    sent = [None]  # sent[n] are the entries of change n
    models = [model]

    def send():
        sent.append(random_change(dice, codes, len(sent)))
        models.append(tree.merge(models[-1], (), sent[-1]))
        return writer.request("m", {"p": "/", "d": sent[-1]})

    for _ in range(40):
        assert writer.response(send())["s"] == "ok"
    for client in clients:
        client.sync()
    check(clients, models[-1], "after 40 changes")

    # Kill mid-stream: 200 changes are under way, some are acknowledged.
    numbers = [send() for _ in range(200)]
    for r in numbers[:60]:
        assert writer.response(r)["s"] == "ok"
    server.signal(9)
    acknowledged = 40 + 60
    try:
        while acknowledged < 240:
            assert writer.response(numbers[acknowledged - 40])["s"] == "ok"
            acknowledged += 1
    except Closed:
        pass
    for client in clients:
        drain(client)
    seen = max((listen.node.value for client in clients for listen in client.cache.listens.values()
                if listen.path == ("progress",) and listen.node is not None), default=0)

    server.restart()
    recovered = Connection(server.port, "default").get("/progress")
    assert acknowledged <= recovered < len(sent), "an acknowledged change is gone"
    assert seen <= recovered, "a client has seen a change that the crash took back"
    for client in clients:
        client.reconnect(server.port)
    check(clients, models[recovered], "after the restart")
    whole = tree.parse(Connection(server.port, "default").get("/"))
    assert tree.simple_hash(whole) == tree.simple_hash(models[recovered])

    # Live again, and exported.
    models, sent = models[: recovered + 1], sent[: recovered + 1]
    writer = Connection(server.port, "default")
    for _ in range(20):
        assert writer.response(send())["s"] == "ok"
    for client in clients:
        client.sync()
    check(clients, models[-1], "after more changes")
    assert server.terminate() == 0
    done = server_module.run("export", "--data", data)
    assert done.returncode == 0, done.stderr
    assert tree.simple_hash(tree.parse(json.loads(done.stdout))) == tree.simple_hash(models[-1])
    output = tmp_path / "out.json"
    done = server_module.run("export", "--data", data, "--output", output, "/scripts")
    assert done.returncode == 0, done.stderr
    assert tree.simple_hash(tree.parse(json.loads(output.read_text()))) == tree.simple_hash(tree.get(models[-1], ("scripts",)))
