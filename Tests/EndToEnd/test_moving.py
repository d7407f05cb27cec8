"""The page public/docs/moving.md, followed: its shell commands run one after the other, with an export of 100 MB in the console's
format. Then the official Admin SDK for Python, with the page's own lines, works on the data that was moved, and all of it comes out."""

import ast
import contextlib
import io
import json
import os
import re
import signal
import subprocess
from urllib.parse import quote

import firebase_admin
import pytest
from firebase_admin import db, exceptions

import server as server_module
from firebase_export import ODD_KEYS, write_export
from server import REPOSITORY
from test_admin_sdk import Listener, loopback_only  # noqa: F401  a fixture of each test here

PAGE = REPOSITORY / "public/docs/moving.md"
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CERTIFICATES = REPOSITORY / "Tests/TLS/Fixtures"
SEED = 7
EXPORT_BYTES = 100_000_000
# Of data, for each process: the comparison of the page is the largest, with 0.9 GB. (Not of address space: each thread reserves some.)
MEMORY_LIMIT_KIB = 2_000_000
DEADLINE = 150
# Commands of the page that no test runs, and why.
NOT_RUN = {
    "firebase database:get / --project my-project --instance my-instance > export.json": "needs Firebase",
    "firebase database:get /.settings/rules --project my-project > rules.json": "needs Firebase",
    "Web, Node      getDatabase(": "the address in each SDK's own language; the SDK for Python stands for them",
}
RULES = """{
  // As the console shows them, comments included.
  "rules": {
    ".read": false,
    "notes": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid", ".indexOn": ["at"]}}
  }
}"""


def blocks(language):
    """The page's blocks of a language, without their indentation."""
    found = BLOCK.findall(PAGE.read_text())
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, name, text in found if name == language]


@pytest.fixture
def folder(tmp_path):
    """Where the commands run, with the files that the first step has."""
    write_export(tmp_path / "export.json", SEED, EXPORT_BYTES)
    (tmp_path / "rules.json").write_text(RULES)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "pando").symlink_to(server_module.BINARY)
    return tmp_path


def follow(folder):
    """Runs the page's commands for a shell in the folder; answers what they print."""
    commands = blocks("sh")
    script = f"set -u\nulimit -d {MEMORY_LIMIT_KIB}\n" + "\n".join(
        f"echo '== step {number}'\n{text}" for number, text in enumerate(commands))
    environment = server_module.clean_environment()
    environment["PATH"] = f"{folder / 'programs'}:{environment['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
        raise AssertionError(f"not done in {DEADLINE} s\n{output[-4000:]}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output[-4000:]
    return output


def canonical(value):
    """Lists as the objects that they are, and nothing for nulls."""
    if isinstance(value, list):
        value = {str(index): child for index, child in enumerate(value)}
    if isinstance(value, dict):
        return {key: canonical(child) for key, child in value.items() if child is not None}
    return value


def without_priorities(value):
    """What an SDK shows as the value."""
    if isinstance(value, dict):
        return value[".value"] if ".value" in value else {
            key: without_priorities(child) for key, child in value.items() if key != ".priority"}
    return value


def load(path):
    with open(path, encoding="utf-8") as file:
        return canonical(json.load(file))


def first_difference(one, other, path=""):
    """Where two values differ, or None: a comparison by `assert` would print all of it."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            found = first_difference(one.get(key), other.get(key), f"{path}/{key}")
            if found:
                return found
        return None
    same = one == other and isinstance(one, bool) == isinstance(other, bool)
    return None if same else f"{path}: {str(one)[:200]!r} and {str(other)[:200]!r}"


def test_every_other_block_of_the_page_has_a_reason():
    lines = [line for block in blocks("") for line in block.splitlines()]
    assert len(blocks("sh")) >= 7 and len(blocks("python")) == 1
    reasons = [reason for line in lines for command, reason in NOT_RUN.items() if line.startswith(command)]
    assert len(reasons) == len(NOT_RUN)
    for block in blocks(""):
        assert any(block.startswith(command) for command in NOT_RUN), block


@pytest.mark.timeout(300)
def test_the_page_is_followed_from_the_export_to_the_way_back(folder, servers, monkeypatch):
    assert (folder / "export.json").stat().st_size >= EXPORT_BYTES
    output = follow(folder)
    assert "the same data" in output
    assert "rules.json: no problems" in output
    assert "2 passed, 0 failed" in output
    assert '"second":true' in output and "Permission denied" in output
    assert list((folder / "archive").glob("journal-*"))
    expected = load(folder / "export.json")
    expected["notes"]["alice"]["last"] = "written here"
    assert first_difference(load(folder / "back.json"), expected) is None
    assert first_difference(load(folder / "notes.json"), expected["notes"]) is None

    server = servers(data=folder / "pando-data", dev=False, arguments=[
        "--rules", folder / "rules.json", "--auth-secret-file", folder / "secret", "--tls-cert", CERTIFICATES / "localhost.pem",
        "--tls-key", CERTIFICATES / "localhost.key"])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATES / "issuer.pem"))
    use_the_sdk(server, folder, expected, monkeypatch)
    assert server.terminate() == 0
    done = server_module.run("export", "--data", folder / "pando-data", "--output", folder / "out.json")
    assert done.returncode == 0, done.stderr
    assert first_difference(load(folder / "out.json"), expected) is None


def use_the_sdk(server, folder, expected, monkeypatch):
    """Reads, queries, listens and writes with the page's own lines; notes in `expected` what it has changed."""
    for name, words in [("admin", ["--admin"]), ("alice", ["--uid", "alice"])]:
        token = server_module.run("token", *words, "--secret-file", folder / "secret")
        assert token.returncode == 0, token.stderr
        (folder / f"{name}.token").write_text(token.stdout)
    monkeypatch.chdir(folder)
    (lines,) = blocks("python")
    address = f"https://localhost:{server.port}"
    printed, page = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(compile(lines.replace("https://pando.example", address), str(PAGE), "exec"), page)
    assert ast.literal_eval(printed.getvalue()) == without_priorities(expected["notes"]["alice"])
    admin = page["app"]
    user = firebase_admin.initialize_app(page["TokenFile"]("alice.token"), {"databaseURL": address}, name="alice")
    try:
        read_and_query(admin, user, expected)
        listen_and_write(admin, user, expected)
    finally:
        firebase_admin.delete_app(user)
        firebase_admin.delete_app(admin)


def read_and_query(admin, user, expected):
    for path in ("keys", "numbers", "deep", "long", "empty strings"):
        found = db.reference(f"/{path}", admin).get()
        assert first_difference(canonical(found), without_priorities(expected[path])) is None, path
    for key in ODD_KEYS:
        # The SDK puts the key into its URL as it is.
        found = db.reference("/keys", admin).child(quote(key, safe="")).get()
        assert found == without_priorities(expected["keys"][key]), key
    keys = db.reference("/notes", admin).get(shallow=True)
    assert keys == dict.fromkeys(expected["notes"], True) and len(keys) > 1000

    notes = expected["notes"]["user000003"]
    times = sorted((note["at"], key) for key, note in notes.items() if isinstance(note, dict) and "at" in note)
    user_notes = db.reference("/notes/user000003", admin)
    assert list(user_notes.order_by_child("at").limit_to_last(3).get()) == [key for _, key in times[-3:]]
    assert list(user_notes.order_by_child("at").start_at(times[5][0]).end_at(times[9][0]).get()) == [key for _, key in times[5:10]]
    page = db.reference("/notes", admin).order_by_key().start_at("user000001").limit_to_first(2).get()
    assert list(page) == ["user000001", "user000002"]
    assert first_difference(canonical(page), {key: without_priorities(expected["notes"][key]) for key in page}) is None

    assert db.reference("/notes/alice/second", user).get() == "plain"
    for path in ("/notes/bob", "/keys"):
        with pytest.raises(exceptions.UnauthenticatedError):
            db.reference(path, user).get()


class WakeUp:
    """What ends a listener of the SDK: a write, and its removal."""

    def __init__(self, app):
        self.app = app

    def put(self, path, value):
        child = db.reference(path, self.app).child("wake up")
        child.set(value)
        child.delete()


def listen_and_write(admin, user, expected):
    alice = db.reference("/notes/alice", admin)
    mine = expected["notes"]["alice"]
    listener = Listener(alice, WakeUp(admin))
    try:
        assert listener.next() == ("put", "/", without_priorities(mine))
        writer = db.reference("/notes/alice", user)
        writer.child("third").set({"at": 1, "text": "ümläut"})
        assert listener.next() == ("put", "/third", {"at": 1, "text": "ümläut"})
        writer.update({"second": "changed", "fourth": True})
        assert listener.next() == ("patch", "/", {"second": "changed", "fourth": True})
        key = writer.push("pushed").key
        assert listener.next() == ("put", f"/{key}", "pushed")
        assert writer.child("third/at").transaction(lambda value: value + 41) == 42
        assert listener.next() == ("put", "/third/at", 42)
        writer.child("last").delete()
        assert listener.next() == ("put", "/last", None)
        with pytest.raises(exceptions.UnauthenticatedError):
            db.reference("/notes/bob", user).set("mine")
    finally:
        listener.close()
    mine |= {"second": "changed", "fourth": True, "third": {"at": 42, "text": "ümläut"}, key: "pushed"}
    del mine["last"]
