"""Segments and checkpoints of a real server: what is on the disk, what a start reads, what damage and a full disk do."""

import json
import pathlib
import re
import shutil
import struct
import time

import pytest

import first_formats
from pando_client import DEADLINE, Connection
from preload import build_library, run_on_bad_disk
from rest_client import OWNER, Rest
from server import StartFailure, run
from transcript import CLOCK_TOLERANCE
from waiting import wait_for

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "Journal/Fixtures"
SMALL = ("--segment-bytes", 65536, "--checkpoint-bytes", 262144)
BAD_DATA = 65


def checkpoints(server):
    return sorted(server.data.glob("checkpoint-*.chk"))


def segments(server):
    return sorted(server.data.glob("journal-*.log"))


def write_until_checkpoints(server, count, connection, number=0):
    """Acknowledged puts until so many checkpoints were made. Answers how many puts there have been."""
    deadline = time.monotonic() + 3 * DEADLINE
    while server.stderr(10**7).count(" records in ") < count:
        assert time.monotonic() < deadline, f"no {count} checkpoints\n{server.stderr()}"
        for _ in range(20):
            connection.must("p", {"p": f"/rows/{number % 500:03d}/{number}", "d": "x" * 500 + str(number)})
            number += 1
    return number


def rows(server):
    with Connection(server.port, "default") as connection:
        return {int(key): value for row in (connection.get("/rows") or {}).values() for key, value in items(row)}


def items(value):
    return enumerate(value) if isinstance(value, list) else value.items()


def expected(count):
    return {number: "x" * 500 + str(number) for number in range(count)}


def test_the_log_is_cut_where_two_checkpoints_no_longer_need_it(servers):
    server = servers(arguments=SMALL)
    with Connection(server.port, "default") as connection:
        count = write_until_checkpoints(server, 4, connection)
        wait_for(lambda: len(checkpoints(server)) == 2, "removal of what is superseded")
    server.kill()
    assert not (server.data / "journal-00000001-0000000000000001.log").exists(), "the journal only grew"
    assert len(segments(server)) > 2
    server.start()
    assert rows(server) == expected(count)
    assert re.search(r"a checkpoint at \d+ of \d+ records in \d+ bytes, then \d+ records of the journal", server.stderr(10**7))
    check = run("check", "data", server.data)
    assert check.returncode == 0 and "2 checkpoints" in check.stdout, check.stdout
    log = run("log", server.data)
    assert log.returncode == 0
    assert sum("\tcheckpoint\t" in line for line in log.stdout.splitlines()) == 2
    assert "\ttree\t" not in log.stdout and "\ttree\t/" in run("log", "--checkpoints", server.data).stdout
    export = run("export", "--data", server.data, "/rows")
    assert sum(len(row) for row in json.loads(export.stdout).values()) == count


def test_everything_else_survives_in_a_checkpoint_too(servers):
    server = servers(arguments=SMALL)
    rules = {"rules": {".read": True, ".write": True}}
    with Connection(server.port, "default") as connection, Connection(server.port, "other") as other:
        rest(server, "other").put_rules(rules)
        other.must("p", {"p": "/a", "d": {".value": 1, ".priority": "p"}})
        other.must("o", {"p": "/gone", "d": {"at": {".sv": "timestamp"}}})
        write_until_checkpoints(server, 3, connection)
        wait_for(lambda: not (server.data / "journal-00000001-0000000000000001.log").exists(), "removal")
        server.kill()
    server.start()
    with Connection(server.port, "other") as other:
        assert other.get("/a") == {".value": 1, ".priority": "p"} and other.get("/gone")["at"] > 10**12
    assert rest(server, "other").ask("GET", "/.settings/rules.json").json() == rules
    assert rest(server, "other").ask("GET", "/a/.priority.json").json() == "p"


def test_a_damaged_checkpoint_is_passed_over_loudly(servers):
    server = servers(arguments=SMALL)
    with Connection(server.port, "default") as connection:
        count = write_until_checkpoints(server, 3, connection)
        wait_for(lambda: len(checkpoints(server)) == 2, "removal of what is superseded")
    server.kill()
    newest = checkpoints(server)[-1]
    damage(newest, newest.stat().st_size // 2)
    check = run("check", "data", server.data)
    assert check.returncode == 1 and f"{newest.name}, byte" in check.stdout, check.stdout
    server.start()
    assert rows(server) == expected(count)
    assert newest.name in server.stderr(10**7) and "checkpoint is damaged; an older one" in server.stderr(10**7)
    assert not newest.exists() and newest.with_name(newest.name + ".damaged").exists()

    # With the older one damaged as well there is no way back: the journal before it is gone.
    server.kill()
    for checkpoint in checkpoints(server):
        damage(checkpoint, checkpoint.stat().st_size // 2)
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == BAD_DATA
    assert "pando check data" in server.stderr() and "a gap" in server.stderr()
    # What is damaged is named first, and no intact file is to be moved away.
    assert f"pando: {checkpoints(server)[-1].name}, byte " in server.stderr()
    assert "move the file away" not in server.stderr()


def test_a_checkpoint_that_cannot_be_read_is_passed_over(servers, disk_faults, tmp_path):
    """EIO for the newest one: the one before and the journal hold the same."""
    server = servers(arguments=SMALL)
    with Connection(server.port, "default") as connection:
        count = write_until_checkpoints(server, 3, connection)
        wait_for(lambda: len(checkpoints(server)) == 2, "removal of what is superseded")
    server.kill()
    newest = checkpoints(server)[-1]

    def bad(*arguments, name=newest.name):
        return run_on_bad_disk(disk_faults, *arguments, FAULT_UNREADABLE=name)

    check = bad("check", "data", server.data)
    assert check.returncode == 1 and f"{newest.name}: cannot be read" in check.stdout, check.stdout + check.stderr
    log = bad("log", server.data)
    assert log.returncode == BAD_DATA and log.stdout.count("\tcheckpoint\t") == 1, log.stderr
    for file in (segments(server)[0], segments(server)[-1]):
        check = bad("check", "data", server.data, name=file.name)
        problems = [line for line in check.stdout.splitlines() if "cannot be read" in line or "gap" in line]
        assert check.returncode == 1 and len(problems) == 1 and file.name in problems[0], check.stdout + check.stderr
    done = bad("backup", "--data", server.data, "--output", tmp_path / "a.backup")
    assert done.returncode == 0, done.stderr

    server.environment = {"LD_PRELOAD": str(disk_faults), "FAULT_UNREADABLE": newest.name}
    server.start()
    assert rows(server) == expected(count)
    assert "a checkpoint cannot be read; an older one" in server.stderr(10**7)
    assert newest.exists(), "its bytes may be good"
    server.kill()
    server.environment = {}
    server.start()
    assert rows(server) == expected(count)


def rest(server, ns):
    return Rest(server.port, ns, fields=[OWNER])


def damage(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_a_missing_segment_is_refused(servers):
    server = servers(arguments=("--segment-bytes", 65536))
    with Connection(server.port, "default") as connection:
        for number in range(600):
            connection.must("p", {"p": f"/a/{number}", "d": "x" * 500})
    server.kill()
    assert len(segments(server)) > 3
    segments(server)[1].unlink()
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == BAD_DATA
    assert segments(server)[1].name in server.stderr() and "pando check data" in server.stderr()
    check = run("check", "data", server.data)
    assert check.returncode == 1 and segments(server)[1].name in check.stdout


def test_sigterm_leaves_little_to_read(servers):
    server = servers(arguments=("--checkpoint-bytes", 1 << 20))
    with Connection(server.port, "default") as connection:
        for number in range(600):
            connection.must("p", {"p": f"/a/{number}", "d": "x" * 500})
    assert server.terminate() == 0
    assert len(checkpoints(server)) == 1, server.stderr()
    server.start()
    assert re.search(r"then \d+ records of the journal", server.stderr())
    with Connection(server.port, "default") as connection:
        assert len(connection.get("/a")) == 600


def test_the_clock_makes_checkpoints_too(servers):
    server = servers(arguments=("--checkpoint-interval", 1))
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
        wait_for(lambda: checkpoints(server), "checkpoint by the clock")
    server.restart()
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") == 1


def test_data_of_version_1_is_opened(servers, tmp_path):
    shutil.copytree(FIXTURES / "version-1", tmp_path / "data")
    server = servers(data=tmp_path / "data")
    with Connection(server.port, "default") as connection:
        assert connection.get("/") == {
            "a": {".priority": "p", "c": {"0": 1, "1": 2.5, "3": "é🐵"}},
            "x": {"y": {".value": True, ".priority": 3}},
        }
    with Connection(server.port, "second") as connection:
        assert connection.get("/z") == -9223372036854775808
        assert connection.get("/gone") == {"at": 7, "n": 2} and connection.get("/never") is None


class TestDataOfTheVersionWithWriters:
    """A data directory, backups and an archive that `upgrade_fixture.py` has made."""

    FOLDER = FIXTURES / "version-1-complete"

    def check(self, server):
        expected = json.loads((self.FOLDER / "expected.json").read_text())
        for name, value in expected.items():
            found = Rest(server.port, name, fields=[OWNER]).ask("GET", "/.json?format=export")
            assert json.loads(found.body) == value

    def test_the_data_directory_is_opened_with_its_history(self, servers, tmp_path):
        shutil.copytree(self.FOLDER / "data", tmp_path / "data")
        server = servers(data=tmp_path / "data")
        self.check(server)
        # The rules came with the checkpoint, and the writers with the journal.
        with Connection(server.port, "default") as connection:
            assert connection.ask("p", {"p": "/users/ann", "d": 1})["s"] == "permission_denied"
        assert "user ann" in run("log", tmp_path / "data").stdout
        server.restart()
        self.check(server)
        assert server.terminate() == 0
        assert run("check", "data", tmp_path / "data").returncode == 0

    def test_backups_and_archive_are_restored(self, servers, tmp_path):
        for name in ("backups", "archive"):
            shutil.copytree(self.FOLDER / name, tmp_path / name)
        done = run("restore", tmp_path / "backups", "--archive", tmp_path / "archive", "--data", tmp_path / "data")
        assert done.returncode == 0, done.stderr
        server = servers(data=tmp_path / "data")
        with Connection(server.port, "second") as connection:
            connection.must("gauth", {"cred": "owner"})
            assert connection.get("/z") == "other"
        with Connection(server.port, "default") as connection:
            connection.must("gauth", {"cred": "owner"})
            assert connection.get("/also") == 5 and connection.get("/users/ann/at") == 1 and connection.get("/values/double") == 2.5
        (backup,) = (tmp_path / "backups").glob("*.backup")
        assert run("check", "backup", backup).returncode == 0


class TestDataOfTheFirstFormats:
    """Checkpoints, backups and an archive as the first versions wrote them: `first_formats.py` has made them from the descriptions."""

    FOLDER = FIXTURES / "version-1-first"
    OLDER = {
        "a": {".priority": "p", "b": 1, "c": {"0": 1, "1": 2.5, "3": "é🐵"}}, "x": {"y": {".value": True, ".priority": 3}}}
    NEWER = OLDER | {"ended": "was there"}
    LAST = NEWER | {
        "a": {".priority": "p", "c": {"0": 1, "1": 7, "3": "é🐵"}}, "rows": {"r1": {"n": 1}, "r2": {".priority": -1.5, "n": 2}}}

    def exported(self, data, namespace="default"):
        done = run("export", "--data", data, "--namespace", namespace)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_the_fixture_is_what_its_writer_makes(self):
        found = {str(path.relative_to(self.FOLDER)): path.read_bytes() for path in self.FOLDER.rglob("*") if path.is_file()}
        assert found == first_formats.files()

    def test_the_writer_makes_the_records_that_the_first_program_wrote(self):
        """Of the journal that a program of that time has left."""
        data = (FIXTURES / "version-1/journal-00000001-0000000000000001.log").read_bytes()
        seed, at, payloads = first_formats.crc32c(data[:44]), 48, []
        while at < len(data):
            checksum, length = struct.unpack_from("<II", data, at)
            end = at + 40 + length + -length % 8
            assert checksum == first_formats.crc32c(data[at + 4:end], seed)
            payloads.append(data[at + 40:at + 40 + length])
            at = end
        assert len(payloads) == 9
        assert payloads[:2] == [
            first_formats.delta("a", [("", self.OLDER["a"])]),
            first_formats.delta("", [("x/y", {".value": True, ".priority": 3}), ("a/b", None)])]
        assert payloads[3:6] == [first_formats.SETTING, b"second", first_formats.delta("z", [("", -(1 << 63))])]

    def test_the_data_directory_is_opened_in_place(self, servers, tmp_path):
        data = tmp_path / "data"
        shutil.copytree(self.FOLDER / "data", data)
        assert run("check", "data", data).returncode == 0 and self.exported(data) == self.LAST
        server = servers(data=data)
        with Connection(server.port, "second") as connection:
            # What waited for the end of a session was written by the start.
            assert connection.get("/z") == -(1 << 63) and connection.get("/never") is None
            gone = connection.get("/gone")
            assert gone["n"] == 2 and abs(gone["at"] - time.time() * 1000) < CLOCK_TOLERANCE
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/new", "d": "of this version"})
        settings = Rest(server.port, "default", fields=[OWNER])
        assert settings.ask("GET", "/.settings/rules.json").json() == json.loads(first_formats.RULES_TEXT)
        assert settings.ask("GET", "/.settings/defaultWriteSizeLimit.json").json() == "small"
        server.restart()
        assert server.terminate() == 0
        assert self.exported(data) == self.LAST | {"new": "of this version"} and run("check", "data", data).returncode == 0
        # The number of a database that was deleted is not used again.
        assert run("namespace", "create", "--data", data, "third").returncode == 0
        assert re.search("\t4\tnamespaceMade\tthird", run("log", "--checkpoints", data).stdout)

    def test_the_older_checkpoint_stands_in_for_a_damaged_one(self, servers, tmp_path):
        data = tmp_path / "data"
        shutil.copytree(self.FOLDER / "data", data)
        newer = data / "checkpoint-00000001-000000000000000b.chk"
        content = bytearray(newer.read_bytes())
        content[200] ^= 1
        newer.write_bytes(content)
        server = servers(data=data)
        assert "damaged" in server.stderr() and server.terminate() == 0
        assert newer.with_name(newer.name + ".damaged").exists() and self.exported(data) == self.LAST

    @pytest.mark.parametrize("source, options, expected", [
        ("monday.backup", [], NEWER), ("backups", [], OLDER), ("backups", ["--archive", "archive"], LAST),
        ("backups", ["--archive", "archive", "--until-sequence", 10], NEWER), ("data", ["--until-sequence", 5], OLDER),
    ])
    def test_backups_and_archive_are_restored(self, servers, tmp_path, source, options, expected):
        shutil.copytree(self.FOLDER, tmp_path / "first")
        options = [tmp_path / "first/archive" if one == "archive" else one for one in options]
        data = tmp_path / "restored"
        done = run("restore", tmp_path / "first" / source, *options, "--data", data)
        assert done.returncode == 0, done.stderr
        assert self.exported(data) == expected and self.exported(data, "second")["z"] == -(1 << 63)
        server = servers(data=data)
        assert server.terminate() == 0 and run("check", "data", data).returncode == 0

    def test_the_archive_is_continued(self, servers, tmp_path):
        """By the server of the upgraded directory: the archive's last segment goes on, and nothing is a gap or a conflict."""
        shutil.copytree(self.FOLDER, tmp_path / "first")
        archive, backups = tmp_path / "first/archive", tmp_path / "first/backups"
        server = servers(data=tmp_path / "first/data", arguments=["--archive-to", archive])
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/new", "d": "archived by this version"})
        wait_for(
            lambda: b"archived by this version" in b"".join(path.read_bytes() for path in archive.glob("journal-*")), "archive")
        assert server.terminate() == 0
        done = run("restore", backups, "--archive", archive, "--data", tmp_path / "restored")
        assert done.returncode == 0, done.stderr
        assert self.exported(tmp_path / "restored") == self.LAST | {"new": "archived by this version"}


@pytest.fixture(scope="session")
def full_disk(tmp_path_factory):
    """A library that makes a disk look full while a file exists: room is refused, and so are new files of a name."""
    folder = tmp_path_factory.mktemp("full-disk")
    source = folder / "full.c"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <stdlib.h>
        #include <sys/types.h>
        #include <unistd.h>
        __attribute__((visibility("default"))) int fallocate(int file, int mode, off_t offset, off_t length) {
            const char *switch_file = getenv("FULL_DISK_SWITCH");
            if (switch_file != NULL && access(switch_file, F_OK) == 0) { errno = ENOSPC; return -1; }
            return (void)file, (void)mode, (void)offset, (void)length, 0;
        }
        """
    )
    return build_library(folder, source)


def test_a_full_disk_refuses_only_writes(servers, full_disk, tmp_path):
    switch = tmp_path / "full"
    server = servers(start=False)
    server.environment = {"LD_PRELOAD": str(full_disk), "FULL_DISK_SWITCH": str(switch)}
    server.start()
    with Connection(server.port, "default") as connection:
        client = rest(server, "default")
        put = lambda path, value: client.ask("PUT", path, json.dumps(value).encode())  # noqa: E731
        connection.must("p", {"p": "/a", "d": 1})
        switch.touch()
        answers = []
        for number in range(40):  # what was granted in advance is 16 MiB
            answers.append(put(f"/filler/{number}.json", "y" * 1_000_000))
            if answers[-1].status != 200:
                break
        assert answers[-1].status == 503 and "disk is full" in answers[-1].text, answers[-1]
        refused = connection.ask("p", {"p": "/b", "d": "z" * 1_000_000})
        assert refused["s"] == "unavailable" and "disk is full" in refused["d"], refused
        assert connection.get("/a") == 1 and connection.get("/b") is None, "reads go on"
        assert client.ask("GET", "/a.json").json() == 1
        assert server.alive and "the disk is full" in server.stderr()

        switch.unlink()
        wait_for(lambda: put("/b.json", "z" * 1_000_000).status == 200, "write after there was room again")
        assert "disk has space again" in server.stderr()

        # Killed while it is full, and opened while it still is: an onDisconnect write waits.
        connection.must("o", {"p": "/gone", "d": "ran"})
        switch.touch()
        server.restart()
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") == 1 and len(connection.get("/b")) == 1_000_000
        assert connection.get("/gone") is None
        server.wait_for_log("the onDisconnect writes of 1 sessions")
        switch.unlink()
        wait_for(lambda: connection.get("/gone") == "ran", "onDisconnect write after there was space")
