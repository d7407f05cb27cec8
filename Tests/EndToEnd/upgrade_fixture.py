"""Makes Tests/Journal/Fixtures/version-1-complete: what today's binary writes, for all later versions to open.

    .build-e2e/venv/bin/python Tests/EndToEnd/upgrade_fixture.py DIRECTORY

`data` is a data directory that was restored and written to since: a checkpoint that begins timeline 2 and its history, writes with
their writers, published rules with their publisher, a second database, settings, a session that has died with its onDisconnect
writes. `backups` and `archive` are of timeline 1, before the restore. `expected.json` is what the databases hold.
"""

import json
import pathlib
import shutil
import sys
import tempfile

from pando_client import Connection
from rest_client import Wire
from server import Server, run
from tokens import unsigned
from waiting import wait_for

SMALL = ["--segment-bytes", 65536, "--checkpoint-bytes", 65536]
RULES = json.dumps({"rules": {"users": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid", ".indexOn": ["at"]}}}})
VALUES = {
    "number": -9223372036854775808, "double": 2.5, "text": "é🐵", "flag": True, "list": [1, None, 3],
    "leaf": {".value": "with a priority", ".priority": 7}, "object": {"a": 1, ".priority": "p"},
}


def rest(server, method, path, value, token="owner", namespace="default"):
    with Wire(server.port) as wire:
        answer = wire.ask(
            method, f"{path}{'&' if '?' in path else '?'}ns={namespace}", json.dumps(value).encode() if value is not None else None,
            fields=[("Authorization", f"Bearer {token}")])
    assert answer.status == 200, answer
    return json.loads(answer.body)


def make(target):
    work = pathlib.Path(tempfile.mkdtemp())
    backups, archive = work / "backups", work / "archive"
    secret = work / "secret"
    secret.write_text("0123456789abcdef" * 4 + "\n")
    token = run("token", "--admin", "--uid", "publisher", "--secret-file", secret)
    assert token.returncode == 0, token.stderr
    server = Server(work / "first", arguments=[
        "--auth-secret-file", secret, "--backup-every", "1s", "--backup-to", backups, "--archive-to", archive, *SMALL]).start()
    wait_for(lambda: list(backups.glob("*.backup")))
    rest(server, "PUT", "/values.json", VALUES)
    rest(server, "PUT", "/.settings/rules.json", json.loads(RULES), token.stdout.strip())
    rest(server, "PUT", "/users/ann.json", {"at": 1}, unsigned("ann"))
    rest(server, "PUT", "/z.json", "other", namespace="second")
    # Later backups replace it, and have at least what it has.
    wait_for(lambda: any(int(path.stem.rpartition("-")[2]) >= 4 for path in backups.glob("*.backup")))
    with Connection(server.port, "default") as gone:
        gone.must("gauth", {"cred": "owner"})
        gone.must("o", {"p": "/gone", "d": {".sv": "timestamp"}})
        gone.must("o", {"p": "/also", "d": 5})
        # The archive copies once in a second.
        wait_for(lambda: b"also" in b"".join(path.read_bytes() for path in archive.glob("journal-*")))
        server.kill()
    data = work / "data"
    assert run("restore", backups, "--archive", archive, "--data", data, "--quiet").returncode == 0
    server = Server(work / "second", data=data, arguments=SMALL).start()
    rest(server, "PATCH", "/users/ann.json", {"at": 2}, unsigned("ann"))
    rest(server, "DELETE", "/values/double.json", None)
    with Connection(server.port, "default") as left:
        left.must("gauth", {"cred": "owner"})
        left.must("o", {"p": "/left", "d": "written at the next start"})
        expected = {name: rest(server, "GET", "/.json?format=export", None, namespace=name) for name in ("default", "second")}
        server.kill()
    expected["default"]["left"] = "written at the next start"
    shutil.rmtree(target, ignore_errors=True)
    for folder, name in [(data, "data"), (backups, "backups"), (archive, "archive")]:
        (target / name).mkdir(parents=True)
        for path in sorted(folder.iterdir()):
            if path.name not in ("LOCK", "journal-prepared.log.new"):
                content = path.read_bytes()
                if name == "data" and path.suffix == ".log":
                    # Of the zeros that are reserved at the end of the last segment, some are enough.
                    content = content.rstrip(b"\0") + bytes(64)
                (target / name / path.name).write_bytes(content)
    (target / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(work)


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
