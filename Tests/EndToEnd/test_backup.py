"""Backups of directories and of running servers; restores, also to a moment; what is damaged is not restored."""

import json
import pathlib
import random
import socket
import subprocess
import threading
import time

import pytest

import server as server_module
from pando_client import Connection
from preload import build_library, run_on_bad_disk
from rest_client import OWNER, Rest
from server import StartFailure, run
from test_import import BAD_CONFIGURATION, BAD_DATA, DISK_FAILURE, as_owner, exported, kill_at_any_moment, many, url, write

RULES = {"rules": {".read": True, "w": {".write": "auth != null"}}}


@pytest.fixture
def full(servers):
    """A server with two databases, rules, a pending onDisconnect write, and something to show."""
    server = servers()
    with Connection(server.port, "other") as connection:
        connection.must("p", {"p": "/name", "d": {"a": [1, 2]}})
    rest = Rest(server.port, "other", fields=[OWNER])
    rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES)).expect(200)
    rest.close()
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/rows", "d": many(3000)})
    return server


def backup(server, output, online):
    if online:
        return as_owner("backup", "--url", url(server), "--output", output)
    return run("backup", "--data", server.data, "--output", output)


@pytest.mark.parametrize("online", [False, True], ids=["directory", "server"])
def test_a_backup_holds_everything(full, servers, tmp_path, online):
    file, data = tmp_path / "all.backup", tmp_path / "restored"
    with Connection(full.port, "default") as leaving:
        leaving.must("o", {"p": "/gone", "d": "ran"})
        done = backup(full, file, online)
    assert done.returncode == 0, done.stderr
    last = [line.split("\t")[0] for line in run("log", full.data).stdout.splitlines() if "/gone" not in line]
    sequence = int(done.stderr.split("sequence ")[1].split(",")[0])
    assert f"{sequence}" in last and sequence >= 5, (sequence, last)
    done = run("check", "backup", file)
    assert done.returncode == 0 and "default, other" in done.stdout, done.stdout
    with Connection(full.port, "default") as connection:
        connection.must("p", {"p": "/later", "d": True})
    assert run("restore", file, "--data", data).returncode == 0
    assert exported(data) == {"rows": many(3000)}
    assert exported(data, "--namespace", "other") == {"name": {"a": {"0": 1, "1": 2}}}
    server = servers(data=data, dev=False)
    with Connection(server.port, "other") as connection:
        assert connection.get("/name") == {"a": [1, 2]} or connection.get("/name") == {"a": {"0": 1, "1": 2}}
        assert connection.ask("p", {"p": "/w", "d": 1})["s"] == "permission_denied"
    server.terminate()
    # The session that queued it ended with the old server: the first start runs it.
    assert "gone" in exported(data) or run("log", data).stdout.count("onDisconnect") > 0


@pytest.mark.parametrize("flags", [[], ["--with-log"]], ids=["state", "journal"])
def test_a_directory_that_cannot_be_synced_is_not_backed_up(servers, tmp_path, flags):
    """A record that is not on disk yet may be lost, and its number goes to another one: a backup must not hold it."""
    server = servers()
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    library = build_library(tmp_path, pathlib.Path(__file__).with_name("faults.c"))
    output = tmp_path / "output"
    environment = server_module.clean_environment() | {
        "LD_PRELOAD": str(library), "FAULT_BAD_SYNC": str(server.data.resolve())}
    command = [str(server_module.BINARY), "backup", "--data", str(server.data), "--output", str(output), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 74 and f"{server.data}/journal-" in done.stderr and "fdatasync failed" in done.stderr
    assert not output.exists() and not list(tmp_path.glob("output*"))


def test_a_backup_of_a_server_in_memory(servers, tmp_path):
    server = servers(memory=True)
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": "kept"})
    assert backup(server, tmp_path / "m.backup", True).returncode == 0
    assert run("restore", tmp_path / "m.backup", "--data", tmp_path / "data").returncode == 0
    assert exported(tmp_path / "data") == {"a": "kept"}


def test_a_backup_under_load_is_one_moment(servers, tmp_path):
    """Each update writes the same number in two places: no backup may see them differ."""
    server, stop = servers(), threading.Event()
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/rows", "d": many(20_000)})

    def load():
        with Connection(server.port, "default") as connection:
            number = 0
            while not stop.is_set():
                number += 1
                connection.must("m", {"p": "/", "d": {"first/n": number, "rows/zz": number}})

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for number in range(4):
            file = tmp_path / f"{number}.backup"
            done = backup(server, file, number % 2 == 0)
            assert done.returncode == 0, done.stderr
            assert run("restore", file, "--data", tmp_path / f"d{number}").returncode == 0
            value = exported(tmp_path / f"d{number}")
            assert value.get("first", {}).get("n") == value["rows"].get("zz")
    finally:
        stop.set()
        thread.join()


def test_moments(servers, tmp_path):
    """Every acknowledged write is a moment that can be gone back to, by its number and by its time."""
    server = servers(arguments=["--checkpoint-bytes", 65536, "--segment-bytes", 65536, "--keep-checkpoints", 100])
    with Connection(server.port, "default") as connection:
        for number in range(60):
            connection.must("p", {"p": "/n", "d": number})
            connection.must("p", {"p": f"/pad/{number}", "d": "x" * 4000})
    server.terminate()
    lines = [line.split("\t") for line in run("log", "--width", 0, server.data).stdout.splitlines()]
    moments = [(int(line[0]), line[1], int(line[4].split(" = ")[1])) for line in lines if line[4].startswith("/n = ")]
    assert len(moments) == 60 and list(server.data.glob("*.chk"))
    copy = tmp_path / "with-log"
    done = run("backup", "--data", server.data, "--output", copy, "--with-log")
    assert done.returncode == 0, done.stderr
    assert run("check", "backup", copy).returncode == 0
    last = {}
    for sequence, moment, number in moments:
        last[moment] = number
    for source, (sequence, moment, number) in zip([server.data, copy] * 5, random.Random(5).sample(moments, 10)):
        done = run("restore", source, "--data", tmp_path / "there", "--until-sequence", sequence, "--replace")
        assert done.returncode == 0, done.stderr
        assert exported(tmp_path / "there", "/n") == number
        done = run("restore", source, "--data", tmp_path / "there", "--until-time", moment, "--replace")
        assert done.returncode == 0, done.stderr
        assert exported(tmp_path / "there", "/n") == last[moment]
        assert run("check", "data", tmp_path / "there").returncode == 0
    done = run("restore", copy, "--data", tmp_path / "never", "--until-sequence", 10**6)
    assert done.returncode == BAD_DATA and not list(tmp_path.glob("never/*.chk"))


@pytest.mark.parametrize("pattern", ["*.chk", "journal-0*.log"])
def test_a_copy_of_a_damaged_directory_is_refused(servers, tmp_path, pattern):
    """The oldest checkpoint and the oldest segment: a start does not read them, an earlier moment needs them."""
    server = servers(arguments=["--checkpoint-bytes", 65536, "--segment-bytes", 65536, "--keep-checkpoints", 100])
    with Connection(server.port, "default") as connection:
        for number in range(120):
            connection.must("p", {"p": f"/pad/{number}", "d": "x" * 4000})
    server.terminate()
    assert len(list(server.data.glob("*.chk"))) >= 2
    damaged = min(server.data.glob(pattern))
    content = bytearray(damaged.read_bytes())
    content[5000] ^= 1
    damaged.write_bytes(content)
    done = run("backup", "--data", server.data, "--output", tmp_path / "copy", "--with-log")
    assert done.returncode == BAD_DATA and damaged.name in done.stderr, done.stderr
    assert not list(tmp_path.glob("copy*"))
    # The present state needs neither.
    assert run("backup", "--data", server.data, "--output", tmp_path / "state.backup").returncode == 0


def test_a_restore_to_a_moment_before_the_log_is_refused(servers, tmp_path):
    server = servers(arguments=["--checkpoint-bytes", 65536, "--segment-bytes", 65536])
    with Connection(server.port, "default") as connection:
        for number in range(120):
            connection.must("p", {"p": f"/pad/{number}", "d": "x" * 4000})
    server.terminate()
    assert not (server.data / "journal-00000001-0000000000000001.log").exists(), "nothing was removed yet"
    for flag in (["--until-sequence", 1], ["--until-time", 1000]):
        done = run("restore", server.data, "--data", tmp_path / "d", *flag)
        assert done.returncode == BAD_DATA and "reach back" in done.stderr, done.stderr


def test_a_restore_over_data_needs_replace(full, tmp_path):
    file = tmp_path / "a.backup"
    assert backup(full, file, False).returncode == 0
    data = tmp_path / "data"
    assert run("import", "--data", data, write(tmp_path / "in.json", {"mine": 1})).returncode == 0
    done = run("restore", file, "--data", data)
    assert done.returncode == BAD_CONFIGURATION and exported(data) == {"mine": 1}
    other = tmp_path / "else"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    assert run("restore", file, "--data", other).returncode == BAD_CONFIGURATION
    assert run("restore", file, "--data", full.data, "--replace").returncode == BAD_CONFIGURATION, "a server runs there"
    assert run("restore", full.data, "--data", full.data, "--replace").returncode == BAD_CONFIGURATION
    assert run("restore", file, "--data", data, "--replace").returncode == 0
    assert exported(data) == {"rows": many(3000)}
    assert run("check", "data", data).returncode == 0
    # Files of the timeline that was left do not come back.
    assert len({path.name.split("-")[1] for path in data.glob("*-*-*")}) == 1


def test_damaged_backups_are_found_and_change_nothing(full, tmp_path):
    file = tmp_path / "a.backup"
    assert backup(full, file, True).returncode == 0
    whole, chance = file.read_bytes(), random.Random(3)
    bad = tmp_path / "bad.backup"
    cuts = [0, 1, 55, 56, 57, len(whole) - 1, len(whole) - 16] + [chance.randrange(len(whole)) for _ in range(6)]
    flips = [0, 8, 12, 30, 48, 52, 56, len(whole) - 1] + [chance.randrange(len(whole)) for _ in range(12)]
    variants = [whole[:cut] for cut in cuts]
    variants += [whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1:] for at in flips]
    variants += [whole + b"\0"]
    for number, content in enumerate(variants):
        bad.write_bytes(content)
        done = run("check", "backup", bad)
        assert done.returncode == 1 and str(bad.name) in done.stdout, (number, done)
        if number % 3 == 0:
            done = run("restore", bad, "--data", tmp_path / "d")
            assert done.returncode == BAD_DATA and not (tmp_path / "d").exists(), (number, done.stderr)


class Cutter:
    """A server's answer that is cut off after so many bytes, although the connection ends in order."""

    def __init__(self, port, limit):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, args=(port, limit), daemon=True)
        self.thread.start()

    def serve(self, port, limit):
        client, _ = self.listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as upstream:
            upstream.sendall(client.recv(65536))
            while limit > 0 and (piece := upstream.recv(min(limit, 65536))):
                client.sendall(piece)
                limit -= len(piece)
        self.listener.close()


@pytest.mark.parametrize("limit", [10, 400, 5000, 100_000])
def test_a_download_that_is_cut_off_leaves_no_backup(full, tmp_path, limit):
    cutter = Cutter(full.port, limit)
    file = write(tmp_path / "a.backup", "the one before")
    done = as_owner("backup", "--url", f"http://127.0.0.1:{cutter.port}", "--output", file)
    assert done.returncode == BAD_DATA and done.stderr, (done.returncode, done.stderr)
    assert file.read_text() == "the one before" and not list(tmp_path.glob("a.backup.*"))


def test_kill_9_at_any_moment_of_a_restore_leaves_all_or_nothing(tmp_path):
    new = {"rows": many(15_000)}
    source, target = tmp_path / "source", tmp_path / "target"
    assert run("import", "--data", source, write(tmp_path / "new.json", new)).returncode == 0
    assert run("import", "--data", target, write(tmp_path / "old.json", {"old": many(300)})).returncode == 0
    file = tmp_path / "a.backup"
    assert run("backup", "--data", source, "--output", file).returncode == 0
    kill_at_any_moment(tmp_path, target, lambda data: ("restore", file, "--data", data, "--replace"), new)


class TestBadDisks:
    """A restore with --replace, of {"new": …} into a directory with {"old": …}."""

    NEW, OLD = {"new": many(300)}, {"old": many(300)}
    RESTORED = "checkpoint-00000002-0000000000000001.chk"

    @pytest.fixture
    def data(self, tmp_path):
        data = tmp_path / "data"
        assert run("import", "--data", tmp_path / "source", write(tmp_path / "new.json", self.NEW)).returncode == 0
        assert run("import", "--data", data, write(tmp_path / "old.json", self.OLD)).returncode == 0
        assert run("backup", "--data", tmp_path / "source", "--output", tmp_path / "a.backup").returncode == 0
        return data

    def restore(self, disk_faults, data, **faults):
        return run_on_bad_disk(disk_faults, "restore", data.parent / "a.backup", "--data", data, "--replace", **faults)

    def test_a_changed_bit_is_found_before_anything_is_replaced(self, disk_faults, data):
        done = self.restore(disk_faults, data, FAULT_FLIPPED_BIT=".chk")
        assert done.returncode == DISK_FAILURE and "is read back otherwise" in done.stderr, done
        assert not list(data.glob("checkpoint-00000002-*"))
        assert exported(data) == self.OLD and run("check", "data", data).returncode == 0

    @pytest.mark.parametrize("faults", [
        {"FAULT_BEHIND_NAME": RESTORED},
        {"FAULT_UNLINK": "journal-00000001-0000000000000001.log"},
    ], ids=["sync", "removal"])
    def test_a_failure_behind_the_name_says_that_the_restore_has_taken_effect(self, disk_faults, data, faults):
        done = self.restore(disk_faults, data, **faults)
        assert done.returncode == DISK_FAILURE and "has taken effect" in done.stderr, done
        assert exported(data) == self.NEW
        assert run("namespace", "create", "--data", data, "other").returncode == 0
        assert {path.name.split("-")[1] for path in data.glob("*-*-*")} == {"00000002"}, "the start has finished it"

    @pytest.mark.parametrize("offset", [10, 60, 2000])
    def test_damage_of_the_restored_checkpoint_does_not_bring_back_the_old_data(self, disk_faults, data, servers, offset):
        self.restore(disk_faults, data, FAULT_BEHIND_NAME=self.RESTORED)
        assert (data / "journal-00000001-0000000000000001.log").exists(), "as after a crash: nothing was removed"
        content = bytearray((data / self.RESTORED).read_bytes())
        content[offset] ^= 4
        (data / self.RESTORED).write_bytes(content)
        with pytest.raises(StartFailure) as failure:
            servers(data=data)
        assert failure.value.code == BAD_DATA and f"{self.RESTORED}, byte " in str(failure.value)
        assert run("export", "--data", data).returncode == BAD_DATA
        check = run("check", "data", data)
        assert check.returncode == 1 and check.stdout.count(", byte ") == 1 and self.RESTORED in check.stdout, check
        assert (data / self.RESTORED).exists() and not list(data.glob("*.damaged"))


def test_a_slow_reader_of_a_backup_does_not_delay_others(full):
    """It reads a little and then nothing: writes go on meanwhile."""
    with Connection(full.port, "default") as connection:
        connection.must("p", {"p": "/more", "d": many(30_000)})
        with socket.create_connection(("127.0.0.1", full.port)) as slow:
            slow.sendall(b"GET /.inspect/backup HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\n\r\n")
            assert slow.recv(1000).startswith(b"HTTP/1.1 200")
            for number in range(50):
                connection.must("p", {"p": "/n", "d": number})
            assert connection.get("/n") == 49


@pytest.mark.parametrize("token, status", [(None, 401), ("owner", 200)])
def test_only_an_administrator_gets_a_backup(full, token, status):
    with socket.create_connection(("127.0.0.1", full.port), timeout=20) as client:
        credential = f"Authorization: Bearer {token}\r\n" if token else ""
        client.sendall(f"GET /.inspect/backup HTTP/1.1\r\nHost: 127.0.0.1\r\n{credential}Connection: close\r\n\r\n".encode())
        assert client.recv(65536).startswith(f"HTTP/1.1 {status}".encode())
