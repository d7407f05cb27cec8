"""Scheduled backups, the archive of the journal, restores from both along timelines, restore tests, disks that come and go."""

import fcntl
import json
import re
import shutil
import signal
import stat
import threading
import time

import pytest

from admin import DEADLINE, Admin
from pando_client import Connection
from rest_client import OWNER, Wire
from server import StartFailure, run
from test_backup import RULES
from test_import import BAD_CONFIGURATION, BAD_DATA, exported, many, write
from test_metrics import values
from waiting import wait_for

NAME = re.compile(r"^pando-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9]+-[0-9]+\.backup$")
WRONG_USAGE = 64


def metric(server, name, **labels):
    return values(Admin(server).text())[(name, tuple(sorted(labels.items())))]


def backups(folder):
    return sorted(path for path in folder.iterdir() if NAME.match(path.name))


def put(server, path, value):
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": path, "d": value})


def wait_for_backup_behind(server, moment):
    """Waits for a backup that holds everything acknowledged before the moment."""
    wait_for(lambda: metric(server, "pando_scheduled_backup_timestamp_seconds") > moment + 1)


def wait_for_archive_behind(server, moment):
    wait_for(lambda: metric(server, "pando_archive_timestamp_seconds") > moment + 1)


class TestScheduled:
    def test_a_backup_each_second_holds_everything_and_few_are_kept(self, servers, tmp_path):
        folder = tmp_path / "backups"
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
        (folder / "pando-20200101T000000.000Z-1-1.backup.new").write_text("left by a killed process")
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder, "--backup-keep", "1,0,0"])
        put(server, "/rows", many(500))
        with Wire(server.port) as rest:
            rest.ask("PUT", "/.settings/rules.json", json.dumps(RULES).encode(), fields=[OWNER]).expect(200)
        wait_for_backup_behind(server, time.time())
        assert metric(server, "pando_scheduled_backups_total", result="written") >= 2
        assert metric(server, "pando_scheduled_backups_total", result="failed") == 0
        assert metric(server, "pando_scheduled_backup_interval_seconds") == 1
        assert metric(server, "pando_scheduled_backup_size_bytes") > 1000
        assert server.terminate() == 0
        # Of two hours, where the test runs across the end of one.
        kept = backups(folder)
        assert 1 <= len(kept) <= 2
        assert {path.name for path in folder.iterdir()} == {path.name for path in kept} | {
            "notes.txt", "LOCK", "pando-place"}
        assert stat.S_IMODE(kept[-1].stat().st_mode) == 0o600
        assert run("check", "backup", kept[-1]).returncode == 0
        # The directory itself names the newest.
        assert run("restore", folder, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"rows": many(500)}

    def test_a_server_in_memory_makes_backups_too(self, servers, tmp_path):
        folder = tmp_path / "backups"
        server = servers(memory=True, arguments=[
            "--admin-listen", "0", "--backup-every", "1", "--backup-to", folder])
        put(server, "/a", "kept")
        wait_for_backup_behind(server, time.time())
        server.kill()
        assert run("restore", folder, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"a": "kept"}

    def test_a_server_in_memory_removes_only_its_own_backups(self, servers, tmp_path):
        folder = tmp_path / "backups"
        arguments = ["--admin-listen", "0", "--backup-every", "1h", "--backup-keep", "1,0,0", "--backup-to", folder]
        server = servers(arguments=arguments)
        wait_for(lambda: len(backups(folder)) == 1)
        kept = backups(folder)
        server.terminate()
        server = servers(memory=True, arguments=["1s" if one == "1h" else one for one in arguments])
        server.wait_for_log("not of this server")
        wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="written") >= 3)
        server.terminate()
        # Of two hours, where the test runs across the end of one.
        assert kept[0] in backups(folder) and 2 <= len(backups(folder)) <= 3

    def test_a_backup_that_cannot_be_read_does_not_stop_the_rotation(self, servers, tmp_path):
        folder = tmp_path / "backups"
        unreadable = folder / "pando-20260101T000000.000Z-1-1.backup"
        unreadable.mkdir(parents=True)
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1s", "--backup-keep", "1,0,0", "--backup-to", folder])
        wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="written") >= 4)
        assert metric(server, "pando_scheduled_backups_unreadable") == 1
        server.terminate()
        assert unreadable.is_dir() and 2 <= len(backups(folder)) <= 4

    def test_the_rhythm_survives_a_restart_and_an_import_is_backed_up_at_once(self, servers, tmp_path):
        folder = tmp_path / "backups"
        server = servers(arguments=["--admin-listen", "0", "--backup-every", "1h", "--backup-to", folder])
        wait_for(lambda: len(backups(folder)) == 1)
        first = backups(folder)[0]
        server.restart()
        server.wait_for_log("a backup is made every 3600 s")
        assert metric(server, "pando_scheduled_backup_timestamp_seconds") > time.time() - 600
        put(server, "/a", 1)
        server.terminate()
        assert backups(folder) == [first]
        assert run("import", "--data", server.data, "--replace", write(tmp_path / "in.json", {"b": 2})).returncode == 0
        server.start()
        # What an import brought is in no journal.
        wait_for(lambda: backups(folder) != [first])
        server.kill()
        assert run("restore", folder, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"b": 2}

    def test_an_empty_data_directory_removes_no_backup_of_another_one(self, servers, tmp_path):
        """As a start before the disk of the data directory is mounted, which makes an empty one."""
        folder = tmp_path / "backups"
        options = ["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder, "--backup-keep", "1,0,0"]
        server = servers(arguments=options)
        put(server, "/a", "kept")
        wait_for_backup_behind(server, time.time())
        server.terminate()
        good = backups(folder)
        empty = servers(data=tmp_path / "empty", arguments=options)
        empty.wait_for_log("check that --data is the right directory and that its disk is mounted")
        wait_for(lambda: metric(empty, "pando_scheduled_backups_total", result="written") >= 3)
        empty.terminate()
        assert set(good) <= set(backups(folder))
        assert run("restore", good[-1], "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"a": "kept"}

    def test_failures_are_counted_and_the_next_time_is_another_attempt(self, servers, tmp_path):
        folder, aside = tmp_path / "backups", tmp_path / "aside"
        server = servers(arguments=["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder])
        wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="written") >= 1)
        # As a disk that is gone: an empty directory in its place.
        folder.rename(aside)
        folder.mkdir()
        wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="failed") >= 2)
        server.wait_for_log("the backup failed")
        assert not list(folder.iterdir())
        folder.rmdir()
        put(server, "/a", "after the failure")
        aside.rename(folder)
        wait_for_backup_behind(server, time.time())
        server.kill()
        assert run("restore", folder, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"a": "after the failure"}

    def test_a_data_directory_that_went_back_is_refused_beside_its_later_backups(self, servers, tmp_path):
        """As the snapshot of a machine that is restored: the lost writes are in the backups only, and stay there."""
        folder, moved = tmp_path / "backups", tmp_path / "moved"
        server = servers(arguments=["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder])
        put(server, "/first", 1)
        wait_for_backup_behind(server, time.time())
        server.terminate()
        shutil.copytree(server.data, tmp_path / "snapshot")
        server.start()
        for number in range(20):
            put(server, f"/second/k{number}", number)
        wait_for_backup_behind(server, time.time())
        server.kill()
        shutil.rmtree(server.data)
        (tmp_path / "snapshot").rename(server.data)
        before = backups(folder)
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == BAD_CONFIGURATION and "set back to an earlier state" in str(failure.value)
        assert backups(folder) == before
        # What it says helps: the lost writes are restored.
        done = run("restore", folder, "--data", tmp_path / "restored")
        assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        assert exported(tmp_path / "restored") == {"first": 1, "second": {f"k{number}": number for number in range(20)}}
        # Without the later backups the earlier state goes on.
        moved.mkdir()
        for path in before:
            path.rename(moved / path.name)
        server.start()
        put(server, "/third", 3)
        wait_for_backup_behind(server, time.time())
        server.kill()
        assert run("restore", folder, "--data", tmp_path / "third").returncode == 0
        assert exported(tmp_path / "third") == {"first": 1, "third": 3}
        # With all of them in one directory, the later state is restored, with a warning.
        for path in moved.iterdir():
            path.rename(folder / path.name)
        done = run("restore", folder, "--data", tmp_path / "again")
        assert done.returncode == 0 and "warning" in done.stderr and "set back" in done.stderr, done.stderr
        assert "second" in exported(tmp_path / "again")

    def test_onDisconnect_writes_of_the_start_do_not_hide_that_it_went_back(self, servers, tmp_path):
        """The snapshot of a running machine has live sessions. The second start finds what the first has appended for them."""
        folder, snapshot = tmp_path / "backups", tmp_path / "snapshot"
        server = servers(arguments=["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder])
        clients = [Connection(server.port, "default") for _ in range(6)]
        for number, client in enumerate(clients):
            client.must("o", {"p": f"/online/{number}", "d": None})
            client.must("p", {"p": f"/online/{number}", "d": True})
        server.signal(signal.SIGSTOP)
        shutil.copytree(server.data, snapshot)
        server.signal(signal.SIGCONT)
        for number in range(3):
            put(server, "/acknowledged", number)
        wait_for_backup_behind(server, time.time())
        server.kill()
        shutil.rmtree(server.data)
        snapshot.rename(server.data)
        before = backups(folder)
        for _ in range(3):
            with pytest.raises(StartFailure) as failure:
                server.start()
            assert failure.value.code == BAD_CONFIGURATION and "set back to an earlier state" in str(failure.value)
        assert backups(folder) == before

    def test_backups_under_load_are_one_moment_each(self, servers, tmp_path):
        """Each write sets two locations to one number: no backup has two."""
        folder = tmp_path / "backups"
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder, "--backup-keep", "3,0,0"])
        seen, done = set(), threading.Event()

        def load():
            number = 0
            with Connection(server.port, "default") as connection:
                while not done.is_set():
                    number += 1
                    connection.must("m", {"p": "/", "d": {"a/n": number, "b/n": number}})

        writer = threading.Thread(target=load)
        writer.start()
        try:
            deadline = time.monotonic() + DEADLINE
            while len(seen) < 3:
                assert time.monotonic() < deadline
                for path in backups(folder):
                    if path in seen:
                        continue
                    try:
                        shutil.copy(path, tmp_path / "copy.backup")
                    except FileNotFoundError:
                        continue  # removed meanwhile
                    seen.add(path)
                    data = tmp_path / f"data{len(seen)}"
                    assert run("restore", tmp_path / "copy.backup", "--data", data).returncode == 0
                    tree = exported(data) or {"a": {"n": 0}, "b": {"n": 0}}
                    assert tree["a"] == tree["b"]
                time.sleep(0.2)
        finally:
            done.set()
            writer.join()

    @pytest.mark.parametrize("arguments, reason", [
        (["--backup-every", "1h"], "--backup-to"),
        (["--backup-to", "b"], "--backup-every"),
        (["--backup-verify", "3"], "--backup-every"),
        (["--archive-to", "same", "--backup-every", "1h", "--backup-to", "same"], "another directory"),
        (["--backup-every", "400d", "--backup-to", "b"], "31536000 seconds"),
    ])
    def test_options_that_do_not_go_together(self, servers, arguments, reason):
        server = servers(start=False, arguments=arguments)
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == BAD_CONFIGURATION and reason in str(failure.value)

    @pytest.mark.parametrize("arguments", [
        ["--backup-every", "often"], ["--backup-every", "1w"], ["--backup-keep", "24,7"], ["--archive-keep", "x"]])
    def test_words_that_are_no_values(self, servers, arguments):
        server = servers(start=False, arguments=arguments)
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == WRONG_USAGE

    @pytest.mark.parametrize("option", ["--backup-to", "--archive-to"])
    def test_a_directory_belongs_to_one_server(self, servers, tmp_path, option):
        arguments = [option, tmp_path / "shared"]
        arguments += ["--backup-every", "1h"] if option == "--backup-to" else []
        servers(arguments=arguments)
        second = servers(start=False, arguments=arguments)
        with pytest.raises(StartFailure) as failure:
            second.start()
        assert failure.value.code == BAD_CONFIGURATION and "in use by process" in str(failure.value)


class TestRestoreTest:
    @pytest.fixture
    def file(self, servers, tmp_path):
        server = servers()
        put(server, "/rows", many(300))
        put(server, "/one", {".value": "leaf", ".priority": 3})
        server.terminate()
        file = tmp_path / "monday.backup"
        assert run("backup", "--data", server.data, "--output", file).returncode == 0
        return file

    def test_one_command_tries_a_restore_and_leaves_nothing(self, file, tmp_path):
        before = sorted(tmp_path.iterdir())
        done = run("restore", "--verify", file)
        assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1
        found = re.match(
            rf"{re.escape(str(file))}: the restore test has passed: everything up to sequence [0-9]+, "
            r"20\S+Z; default with ([0-9]+) leaves; digest ([0-9a-f]{40}); [0-9.]+ s\n$", done.stdout)
        assert found, done.stdout
        assert int(found[1]) == leaves(many(300)) + 1
        assert sorted(tmp_path.iterdir()) == before
        again = run("restore", "--verify", file, "--digest", found[2])
        assert again.returncode == 0
        other = run("restore", "--verify", file, "--digest", "0" * 40)
        assert other.returncode == BAD_DATA and "digest" in other.stderr
        assert sorted(tmp_path.iterdir()) == before

    def test_a_damaged_backup_fails(self, file, tmp_path):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
        before = sorted(tmp_path.iterdir())
        done = run("restore", "--verify", file)
        assert done.returncode == BAD_DATA and file.name in done.stderr and done.stdout == ""
        assert sorted(tmp_path.iterdir()) == before

    def test_where_it_restores(self, file, tmp_path):
        there = tmp_path / "there"
        there.mkdir()
        assert run("restore", "--verify", file, "--scratch", there).returncode == BAD_CONFIGURATION
        assert there.exists()
        assert run("restore", "--verify", file, "--scratch", tmp_path / "new").returncode == 0
        assert not (tmp_path / "new").exists()

    def test_what_a_killed_test_has_left_is_removed_before_the_next_one(self, file, tmp_path):
        left = tmp_path / "pando-restore-test-1234.scratch"
        (left / "data").mkdir(parents=True)
        (left / "LOCK").write_text("left by a killed restore test")
        earlier = tmp_path / "pando-20260101T000000.000Z-1-7.backup.1.restore-test"
        earlier.mkdir()
        others = [tmp_path / "pando-restore-test-1234", tmp_path / "monday.backup.1.restore-test"]
        running = tmp_path / "pando-restore-test-5678.scratch"
        for folder in [*others, running]:
            folder.mkdir()
        with open(running / "LOCK", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = run("restore", "--verify", file)
        assert done.returncode == 0, done.stderr
        assert not left.exists() and not earlier.exists()
        assert running.exists() and all(folder.exists() for folder in others)

    @pytest.mark.parametrize("arguments", [
        [], ["--data", "d", "--verify"], ["--verify", "--replace"], ["--data", "d", "--scratch", "s"],
        ["--data", "d", "--digest", "00"],
    ])
    def test_wrong_usage(self, file, arguments):
        assert run("restore", file, *arguments).returncode == WRONG_USAGE

    def test_the_server_tests_its_own_backups(self, servers, tmp_path):
        folder = tmp_path / "backups"
        folder.mkdir()
        left = folder / "pando-restore-test-1234.scratch"
        left.mkdir()
        (left / "LOCK").write_text("left by a killed restore test")
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder, "--backup-verify", "1000000"])
        wait_for(lambda: not left.exists())
        assert server.terminate() == 0
        server = servers(data=server.data, arguments=[
            "--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder, "--backup-verify", "2"])
        put(server, "/rows", many(200))
        with Connection(server.port, "default") as leaving:
            leaving.must("o", {"p": "/gone", "d": "ran"})
            wait_for(lambda: metric(server, "pando_restore_tests_total", source="backup", result="passed") >= 1)
            wait_for(lambda: metric(server, "pando_restore_test_timestamp_seconds") > time.time() - 60)
        assert metric(server, "pando_restore_tests_total", source="backup", result="failed") == 0
        server.wait_for_log("the restore test has passed")
        passed = metric(server, "pando_restore_test_timestamp_seconds")
        server.restart()
        # The next start knows it.
        assert metric(server, "pando_restore_test_timestamp_seconds") >= passed
        assert server.terminate() == 0
        assert not [path for path in folder.iterdir() if "scratch" in path.name]

    def test_a_test_by_hand_counts_for_the_server(self, servers, tmp_path):
        folder = tmp_path / "backups"
        server = servers(arguments=["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder])
        put(server, "/rows", many(50))
        wait_for(lambda: backups(folder))
        assert metric(server, "pando_restore_test_timestamp_seconds") == 0
        began = int(time.time())
        done = run("restore", "--verify", folder)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert (folder / "restore-test.passed").exists()
        wait_for(lambda: metric(server, "pando_restore_test_timestamp_seconds") >= began)
        # Space of the disk is looked at with each backup.
        assert metric(server, "pando_backup_disk_size_bytes", use="backup") >= metric(
            server, "pando_backup_disk_free_bytes", use="backup") > 0
        assert metric(server, "pando_backup_disk_free_bytes", use="archive") == 0

    def test_a_test_of_one_file_is_noted_nowhere(self, file, tmp_path):
        assert run("restore", "--verify", file).returncode == 0
        assert not list(tmp_path.rglob("restore-test.passed"))

    def test_the_archive_is_tested_with_the_backup_before(self, servers, tmp_path):
        """What is archived between two backups makes the second of the first: also rules, settings and onDisconnect."""
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "2s", "--backup-to", folder, "--backup-verify", "1",
            "--archive-to", archive, "--segment-bytes", 65536])
        def passed():
            return metric(server, "pando_restore_tests_total", source="archive", result="passed")

        with Connection(server.port, "default") as connection, Wire(server.port) as rest:
            connection.must("o", {"p": "/gone", "d": "ran"})
            rules = json.dumps({"rules": {".read": True, ".write": True}}).encode()
            rest.ask("PUT", "/.settings/rules.json", rules, fields=[OWNER]).expect(200)
            for number in range(150):
                connection.must("p", {"p": f"/r/k{number}", "d": {"text": "x" * 500, ".priority": number}})
                if number % 50 == 49:
                    before = passed()
                    wait_for(lambda: passed() >= before + 2)
        assert metric(server, "pando_restore_tests_total", source="archive", result="failed") == 0
        assert metric(server, "pando_restore_tests_total", source="backup", result="failed") == 0
        server.wait_for_log("restore test has passed")
        # A segment that is damaged fails it, and the backups that passed stay.
        server.terminate()
        damaged = min(archive.glob("*.log"))
        names = [path.name for path in backups(folder)]
        for path in archive.iterdir():
            if path.suffix in (".log", ".partial"):
                content = bytearray(path.read_bytes())
                content[64:72] = bytes(8)
                path.write_bytes(content)
        assert damaged.exists()
        server.start()
        wait_for(lambda: metric(server, "pando_archive_failures_total", reason="damaged") >= 1
                 or metric(server, "pando_restore_tests_total", source="archive", result="failed") >= 1)
        assert set(names) & {path.name for path in backups(folder)}


def leaves(value):
    if isinstance(value, dict):
        return sum(leaves(child) for child in value.values())
    if isinstance(value, list):
        return sum(leaves(child) for child in value)
    return 0 if value is None else 1


class TestArchive:
    SMALL = ["--segment-bytes", 65536]

    @pytest.mark.parametrize("durability", ["always", "interval"])
    def test_a_lost_disk_costs_what_the_last_second_wrote(self, servers, tmp_path, durability):
        """kill -9, the data directory is gone; backups and archive bring it back, and a server goes on from there."""
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        options = ["--admin-listen", "0", "--durability", durability, *self.SMALL, "--backup-every", "1h", "--backup-to",
                   folder, "--archive-to", archive]
        server = servers(arguments=options)
        put(server, "/first", "before the backup")
        wait_for(lambda: backups(folder))
        expected = {}
        with Connection(server.port, "default") as connection:
            for number in range(400):
                expected[str(number)] = "x" * 400 + str(number)
                connection.must("p", {"p": f"/rows/r{number}", "d": expected[str(number)]})
        wait_for_archive_behind(server, time.time())
        server.kill()
        shutil.rmtree(server.data)
        whole = sorted(archive.glob("*.log"))
        assert len(whole) >= 2 and len(list(archive.glob("*.partial"))) == 1
        data = tmp_path / "restored"
        done = run("restore", folder, "--archive", archive, "--data", data)
        assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        tree = exported(data)
        assert tree["rows"] == {f"r{key}": value for key, value in expected.items()}
        assert run("check", "data", data).returncode == 0
        # The trial of the same says so, too.
        trial = run("restore", "--verify", folder, "--archive", archive)
        assert trial.returncode == 0, trial.stderr
        # A server on the restored directory archives its new timeline in the same place.
        again = servers(data=data, arguments=options)
        put(again, "/later", "on the new timeline")
        wait_for_archive_behind(again, time.time())
        wait_for(lambda: len(backups(folder)) >= 2)
        put(again, "/last", 1)
        wait_for_archive_behind(again, time.time())
        again.kill()
        shutil.rmtree(data)
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "twice").returncode == 0
        assert exported(tmp_path / "twice", "/later") == "on the new timeline"
        assert exported(tmp_path / "twice", "/last") == 1
        assert exported(tmp_path / "twice", "/first") == "before the backup"

    def test_every_moment_behind_a_backup_can_be_restored(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", *self.SMALL, "--checkpoint-bytes", 65536, "--backup-every", "1h", "--backup-to", folder,
            "--archive-to", archive])
        wait_for(lambda: backups(folder))
        with Connection(server.port, "default") as connection:
            for number in range(60):
                connection.must("p", {"p": "/n", "d": number})
                connection.must("p", {"p": f"/pad/{number}", "d": "x" * 4000})
        wait_for_archive_behind(server, time.time())
        with Connection(server.port, "default") as connection:
            for number in range(60, 80):
                connection.must("p", {"p": f"/pad/{number}", "d": "x" * 4000})
        # The next checkpoint removes what is archived.
        first = "journal-00000001-0000000000000001.log"
        wait_for(lambda: not (server.data / first).exists())
        assert server.terminate() == 0 and (archive / first).exists()
        lines = [line.split("\t") for line in run("log", "--width", 0, archive).stdout.splitlines()]
        assert lines, "the archive's whole segments can be printed"
        newest = backups(folder)[-1]
        for sequence in (30, 61, 90):
            data = tmp_path / f"until{sequence}"
            done = run("restore", newest, "--archive", archive, "--data", data, "--until-sequence", sequence)
            assert done.returncode == 0, done.stderr
            assert f"sequence {sequence}," in done.stderr
        beyond = run("restore", newest, "--archive", archive, "--data", tmp_path / "d", "--until-sequence", 10**6)
        assert beyond.returncode == BAD_DATA
        # The journal is there from its first record on, so that is a moment, too; without its first segment it is not.
        done = run("restore", newest, "--archive", archive, "--data", tmp_path / "empty", "--until-time", 1000)
        assert done.returncode == 0 and exported(tmp_path / "empty") is None
        (archive / first).unlink()
        before = run("restore", newest, "--archive", archive, "--data", tmp_path / "d", "--until-time", 1000)
        assert before.returncode == BAD_DATA and "earlier" in before.stderr

    def test_what_was_written_while_it_stopped_is_archived(self, servers, tmp_path):
        archive = tmp_path / "archive"
        server = servers(arguments=["--archive-to", archive])
        with Connection(server.port, "default") as connection:
            connection.must("o", {"p": "/gone", "d": "ran"})
            connection.must("p", {"p": "/last", "d": 1})
            assert server.terminate() == 0
        partial = next(archive.glob("*.partial"))
        original = server.data / partial.name.removesuffix(".partial")
        assert partial.read_bytes() == original.read_bytes()

    def test_a_restart_continues_the_archive(self, servers, tmp_path):
        archive = tmp_path / "archive"
        server = servers(arguments=["--admin-listen", "0", "--archive-to", archive, *self.SMALL])
        for round in range(4):
            with Connection(server.port, "default") as connection:
                for number in range(40):
                    connection.must("p", {"p": f"/r{round}/{number}", "d": "x" * 1000})
            if round % 2:
                wait_for_archive_behind(server, time.time())
            server.restart()
        wait_for_archive_behind(server, time.time())
        server.kill()
        for original in server.data.glob("*.log"):
            copies = [path for path in (archive / original.name, archive / (original.name + ".partial")) if path.exists()]
            assert len(copies) == 1
            content = copies[0].read_bytes()
            assert original.read_bytes()[:len(content)] == content and not any(original.read_bytes()[len(content):])

    def test_a_failure_does_not_stop_the_server_and_is_repaired(self, servers, tmp_path):
        archive = tmp_path / "archive"
        server = servers(arguments=["--admin-listen", "0", "--archive-to", archive, *self.SMALL])
        put(server, "/a", 1)
        wait_for_archive_behind(server, time.time())
        next(archive.glob("*.partial")).unlink()
        with Connection(server.port, "default") as connection:
            for number in range(100):
                connection.must("p", {"p": f"/r/k{number}", "d": "x" * 1000})
            wait_for(lambda: metric(server, "pando_archive_failures_total", reason="disk") >= 1)
            connection.must("p", {"p": "/b", "d": 2})
        server.wait_for_log("the journal cannot be archived")
        wait_for_archive_behind(server, time.time())
        server.wait_for_log("the journal is archived again")
        server.kill()
        for original in server.data.glob("*.log"):
            copy = next(path for path in (archive / original.name, archive / (original.name + ".partial")) if path.exists())
            assert original.read_bytes().startswith(copy.read_bytes())

    def test_an_archive_of_another_directory_is_refused(self, servers, tmp_path):
        archive = tmp_path / "archive"
        first = servers(arguments=["--admin-listen", "0", "--archive-to", archive])
        put(first, "/a", 1)
        wait_for_archive_behind(first, time.time())
        first.kill()
        second = servers(start=False, arguments=["--archive-to", archive])
        with pytest.raises(StartFailure) as failure:
            second.start()
        assert failure.value.code == BAD_CONFIGURATION and "not the archive of this data directory" in str(failure.value)

    @pytest.mark.parametrize("stops", ["terminate", "kill"])
    def test_an_import_leaves_a_gap_and_the_archive_goes_on(self, servers, tmp_path, stops):
        """The import is in no journal. The backup that the next start makes at once has it."""
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        options = ["--admin-listen", "0", *self.SMALL, "--backup-every", "1h", "--backup-to", folder, "--archive-to", archive]
        server = servers(arguments=options)
        wait_for(lambda: backups(folder))
        first = backups(folder)[0]
        before = shutil.copy(first, tmp_path / "before.backup")
        for number in range(20):
            put(server, f"/old/k{number}", "x" * 1000)
        wait_for_archive_behind(server, time.time())
        getattr(server, stops)()
        done = run("import", "--data", server.data, "--replace", write(tmp_path / "in.json", {"b": 2}))
        assert done.returncode == 0 and "the archive of this directory has a gap" in done.stderr
        server.start()
        wait_for(lambda: metric(server, "pando_archive_gaps_total") == 1 and backups(folder)[-1] != first)
        server.wait_for_log("the archive has a gap")
        put(server, "/c", 3)
        wait_for_archive_behind(server, time.time())
        # The gap is noted once, and a further start finds nothing wrong.
        server.restart()
        put(server, "/d", 4)
        wait_for_archive_behind(server, time.time())
        assert metric(server, "pando_archive_gaps_total") == 0
        assert sum(metric(server, "pando_archive_failures_total", reason=reason)
                   for reason in ("disk", "missing", "conflict", "damaged")) == 0
        server.kill()
        shutil.rmtree(server.data)
        done = run("restore", before, "--archive", archive, "--data", tmp_path / "d")
        assert done.returncode == BAD_DATA and "a gap" in done.stderr
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"b": 2, "c": 3, "d": 4}

    def test_a_torn_end_of_the_archive_is_cut_off_with_a_warning(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1h", "--backup-to", folder, "--archive-to", archive])
        wait_for(lambda: backups(folder))
        with Connection(server.port, "default") as connection:
            for number in range(50):
                connection.must("p", {"p": f"/r/k{number}", "d": number})
        wait_for_archive_behind(server, time.time())
        server.kill()
        partial = next(archive.glob("*.partial"))
        content = bytearray(partial.read_bytes())
        # A sector in the middle that a power cut has kept from the disk.
        middle = len(content) // 2
        content[middle:middle + 100] = bytes(100)
        partial.write_bytes(content)
        done = run("restore", folder, "--archive", archive, "--data", tmp_path / "d")
        assert done.returncode == 0 and "warning" in done.stderr and "cannot be read" in done.stderr
        rows = exported(tmp_path / "d", "/r")
        assert 10 < len(rows) < 50 and all(rows[f"k{number}"] == number for number in range(len(rows)))

    def test_a_gap_is_refused(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", *self.SMALL, "--backup-every", "1h", "--backup-to", folder, "--archive-to", archive])
        wait_for(lambda: backups(folder))
        with Connection(server.port, "default") as connection:
            for number in range(300):
                connection.must("p", {"p": f"/r/k{number}", "d": "x" * 1000})
        wait_for_archive_behind(server, time.time())
        server.kill()
        sorted(archive.glob("*.log"))[1].unlink()
        done = run("restore", folder, "--archive", archive, "--data", tmp_path / "d")
        assert done.returncode == BAD_DATA and "a gap" in done.stderr and not (tmp_path / "d").exists()

    def test_segments_are_removed_when_backups_have_them(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", *self.SMALL, "--backup-every", "1s", "--backup-to", folder, "--backup-keep", "1,0,0",
            "--archive-to", archive, "--archive-keep", "1s"])
        with Connection(server.port, "default") as connection:
            for number in range(300):
                connection.must("p", {"p": f"/r/k{number}", "d": "x" * 1000})
        wait_for(lambda: metric(server, "pando_archive_segments_total") >= 3 and not list(archive.glob("*.log")))
        put(server, "/last", "kept")
        wait_for_archive_behind(server, time.time())
        server.kill()
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "d").returncode == 0
        assert exported(tmp_path / "d", "/last") == "kept" and len(exported(tmp_path / "d", "/r")) == 300

    def test_a_data_directory_that_went_back_is_not_archived_over_what_it_lost(self, servers, tmp_path):
        """As the snapshot of a machine that is restored: the lost writes are in the archive only, and stay there."""
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        options = ["--admin-listen", "0", "--backup-every", "1h", "--backup-to", folder, "--archive-to", archive]
        server = servers(arguments=options)
        wait_for(lambda: backups(folder))
        put(server, "/first", 1)
        server.terminate()
        shutil.copytree(server.data, tmp_path / "snapshot")
        server.start()
        put(server, "/second", 2)
        wait_for_archive_behind(server, time.time())
        server.kill()
        shutil.rmtree(server.data)
        (tmp_path / "snapshot").rename(server.data)
        before = {path.name: path.read_bytes() for path in archive.glob("journal-*")}
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == BAD_CONFIGURATION and "set back to an earlier state" in str(failure.value)
        assert {path.name: path.read_bytes() for path in archive.glob("journal-*")} == before
        # What it says helps: the lost write is restored, and the new directory goes on in the same archive.
        data = tmp_path / "restored"
        assert run("restore", folder, "--archive", archive, "--data", data).returncode == 0
        assert exported(data) == {"first": 1, "second": 2}
        again = servers(data=data, arguments=options)
        put(again, "/third", 3)
        wait_for_archive_behind(again, time.time())
        assert metric(again, "pando_archive_failures_total", reason="conflict") == 0
        again.kill()
        # And the old one, which the new one has replaced, does not.
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == BAD_CONFIGURATION and "has taken its place" in str(failure.value)

    def test_two_that_were_restored_from_one_do_not_share_an_archive(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        server = servers(arguments=[
            "--admin-listen", "0", "--backup-every", "1h", "--backup-to", folder, "--archive-to", archive])
        wait_for(lambda: backups(folder))
        put(server, "/a", 1)
        wait_for_archive_behind(server, time.time())
        server.kill()
        for name in ("one", "two"):
            assert run("restore", folder, "--archive", archive, "--data", tmp_path / name).returncode == 0
        one = servers(data=tmp_path / "one", arguments=["--admin-listen", "0", "--archive-to", archive])
        put(one, "/one", 1)
        wait_for_archive_behind(one, time.time())
        one.kill()
        two = servers(data=tmp_path / "two", start=False, arguments=["--archive-to", archive])
        with pytest.raises(StartFailure) as failure:
            two.start()
        assert failure.value.code == BAD_CONFIGURATION and "not the archive of this data directory" in str(failure.value)


class TestTimelines:
    def test_a_restore_follows_the_newest_timeline_and_an_older_one_on_request(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        options = ["--admin-listen", "0", "--archive-to", archive, "--segment-bytes", 65536]
        server = servers(arguments=[*options, "--backup-every", "1h", "--backup-to", folder])
        wait_for(lambda: backups(folder))
        put(server, "/a", "kept")
        mark = max(int(line.split()[0]) for line in run("log", "--width", 0, server.data).stdout.splitlines()
                   if line.split() and line.split()[0].isdigit())
        put(server, "/b", "given up")
        wait_for_archive_behind(server, time.time())
        server.kill()
        second = tmp_path / "second"
        done = run("restore", folder, "--archive", archive, "--data", second, "--until-sequence", mark)
        assert done.returncode == 0 and "timeline 2" in done.stderr, done.stderr
        # No backup of timeline 2: its journal is in the archive only.
        again = servers(data=second, arguments=options)
        put(again, "/c", "on timeline 2")
        wait_for_archive_behind(again, time.time())
        again.kill()
        shutil.rmtree(second)
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "newest").returncode == 0
        assert exported(tmp_path / "newest") == {"a": "kept", "c": "on timeline 2"}
        done = run("restore", folder, "--archive", archive, "--data", tmp_path / "old", "--timeline", 1)
        assert done.returncode == 0 and "timeline 3" in done.stderr, done.stderr
        assert exported(tmp_path / "old") == {"a": "kept", "b": "given up"}
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "d", "--timeline", 7).returncode == BAD_DATA
        assert run("restore", folder, "--data", tmp_path / "d", "--timeline", 1).returncode == WRONG_USAGE
        assert run("restore", "--verify", folder, "--archive", archive).returncode == 0

    def test_a_damaged_history_stops_only_the_archive(self, servers, tmp_path):
        archive, data = tmp_path / "archive", tmp_path / "second"
        server = servers()
        put(server, "/a", 1)
        server.terminate()
        assert run("restore", server.data, "--data", data).returncode == 0
        again = servers(data=data, arguments=["--admin-listen", "0", "--archive-to", archive])
        put(again, "/b", 2)
        wait_for_archive_behind(again, time.time())
        again.terminate()
        history = data / "timeline-00000002.history"
        history.write_bytes(history.read_bytes().replace(b"1", b"2", 1))
        again.start()
        put(again, "/c", 3)
        wait_for(lambda: metric(again, "pando_archive_failures_total", reason="damaged") >= 1)
        again.wait_for_log(f"{history.name}, byte 0")
        # As the message says. No restart is needed.
        shutil.copy(archive / history.name, history)
        wait_for_archive_behind(again, time.time())
        assert metric(again, "pando_archive_failures_total", reason="conflict") == 0

    def test_a_backup_of_what_was_given_up_is_refused(self, servers, tmp_path):
        folder, archive = tmp_path / "backups", tmp_path / "archive"
        options = ["--admin-listen", "0", "--archive-to", archive]
        server = servers(arguments=[*options, "--backup-every", "1h", "--backup-to", folder])
        wait_for(lambda: backups(folder))
        for number in range(5):
            put(server, "/n", number)
        late = tmp_path / "late.backup"
        server.terminate()
        assert run("backup", "--data", server.data, "--output", late).returncode == 0
        assert run("restore", folder, "--archive", archive, "--data", tmp_path / "second", "--until-sequence", 2).returncode == 0
        again = servers(data=tmp_path / "second", arguments=options)
        put(again, "/later", 1)
        wait_for_archive_behind(again, time.time())
        again.kill()
        done = run("restore", late, "--archive", archive, "--data", tmp_path / "d")
        assert done.returncode == BAD_DATA and "--timeline 1" in done.stderr
        assert run("restore", late, "--archive", archive, "--data", tmp_path / "d", "--timeline", 1).returncode == 0
        assert exported(tmp_path / "d", "/n") == 4


class TestNamesOfAWrongClock:
    """A restore takes the latest backup in the journal, whatever the times in the names say."""

    @pytest.mark.parametrize("times", [
        ("20200101", "20200102", "20200103"), ("20200101", "20200103", "20200102"), ("20200102", "20200103", "20200101"),
        ("20200101", "20200102", "20990101"), ("20200101", "20990101", "20200102"),
    ])
    def test_the_latest_in_the_journal_is_restored(self, times, tmp_path):
        data, folder, value = tmp_path / "data", tmp_path / "backups", tmp_path / "value.json"
        folder.mkdir()
        for number, day in enumerate(times, start=1):
            value.write_text(str(number))
            assert run("import", "--data", data, "--path", "/n", "--replace", value).returncode == 0
            file = folder / f"pando-{day}T000000.000Z-1-{number}.backup"
            assert run("backup", "--data", data, "--output", file).returncode == 0
        # Sequences of another data directory say nothing.
        value.write_text("9")
        assert run("import", "--data", tmp_path / "other", "--path", "/n", value).returncode == 0
        other = folder / "pando-20190101T000000.000Z-1-9.backup"
        assert run("backup", "--data", tmp_path / "other", "--output", other).returncode == 0

        assert run("restore", folder, "--data", tmp_path / "restored").returncode == 0
        assert exported(tmp_path / "restored") == {"n": 3}


class TestDisksThatComeAndGo:
    @pytest.mark.parametrize("leaves_directory", [True, False])
    def test_an_archive_that_vanishes_is_not_begun_anew(self, servers, tmp_path, leaves_directory):
        archive, aside = tmp_path / "archive", tmp_path / "aside"
        server = servers(arguments=["--admin-listen", "0", "--archive-to", archive])
        put(server, "/a", 1)
        wait_for_archive_behind(server, time.time())
        # As a disk that is unmounted: an empty directory is there, or none.
        archive.rename(aside)
        if leaves_directory:
            archive.mkdir()
        server.kill()
        server.start()
        put(server, "/b", 2)
        reason = "missing" if leaves_directory else "disk"
        wait_for(lambda: metric(server, "pando_archive_failures_total", reason=reason) >= 1)
        assert metric(server, "pando_archive_enabled") == 1
        assert not archive.exists() or not list(archive.iterdir())
        server.wait_for_log("--archive-to: cannot be used now")
        if leaves_directory:
            archive.rmdir()
        aside.rename(archive)
        wait_for_archive_behind(server, time.time())
        server.kill()
        partial = next(archive.glob("*.partial"))
        original = (server.data / partial.name.removesuffix(".partial")).read_bytes()
        assert original.startswith(partial.read_bytes()) and not any(original[len(partial.read_bytes()):])

    @pytest.mark.parametrize("option", ["--backup-to", "--archive-to"])
    def test_a_missing_disk_does_not_keep_a_server_from_serving(self, servers, tmp_path, option):
        place = tmp_path / "disk" / "place"
        arguments = ["--admin-listen", "0", option, place]
        arguments += ["--backup-every", "1s"] if option == "--backup-to" else []
        server = servers(arguments=arguments)
        put(server, "/a", 1)
        server.wait_for_log(f"{option}: cannot be used now")
        if option == "--backup-to":
            wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="failed") >= 1)
        else:
            wait_for(lambda: metric(server, "pando_archive_failures_total", reason="disk") >= 1)
            assert metric(server, "pando_archive_timestamp_seconds") == 0
        place.parent.mkdir()
        if option == "--backup-to":
            wait_for(lambda: backups(place) if place.exists() else [])
        else:
            wait_for_archive_behind(server, time.time())
        assert server.terminate() == 0

    @pytest.mark.parametrize("option", ["--backup-to", "--archive-to"])
    def test_a_damaged_record_of_the_directory_makes_none(self, servers, tmp_path, option):
        place = tmp_path / "place"
        arguments = ["--admin-listen", "0", option, place]
        arguments += ["--backup-every", "1s"] if option == "--backup-to" else []
        server = servers(arguments=arguments)
        wait_for(lambda: (server.data / ("backup.place" if option == "--backup-to" else "archive.place")).exists())
        server.terminate()
        record = next(server.data.glob("*.place"))
        whole = record.read_bytes()
        record.write_bytes(bytes(60))
        place.rename(tmp_path / "aside")
        server.start()
        put(server, "/a", 1)
        server.wait_for_log(f"{option}: cannot be used now")
        server.wait_for_log(f"{record.name}: not what a server writes there")
        if option == "--backup-to":
            wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="failed") >= 1)
        else:
            wait_for(lambda: metric(server, "pando_archive_failures_total", reason="damaged") >= 1)
        assert not place.exists() and record.read_bytes() == bytes(60)
        # The next start finds the record whole.
        server.terminate()
        (tmp_path / "aside").rename(place)
        record.write_bytes(whole)
        server.start()
        put(server, "/b", 2)
        if option == "--backup-to":
            wait_for_backup_behind(server, time.time())
        else:
            wait_for_archive_behind(server, time.time())

    @pytest.mark.parametrize("option", ["--backup-to", "--archive-to"])
    def test_a_file_where_a_directory_should_be_is_refused(self, servers, tmp_path, option):
        (tmp_path / "file").write_text("mine")
        arguments = [option, tmp_path / "file"]
        arguments += ["--backup-every", "1h"] if option == "--backup-to" else []
        server = servers(start=False, arguments=arguments)
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == BAD_CONFIGURATION and option in str(failure.value)

    def test_another_directory_is_begun_anew_on_request(self, servers, tmp_path):
        archive = tmp_path / "archive"
        server = servers(arguments=["--admin-listen", "0", "--archive-to", archive])
        put(server, "/a", 1)
        wait_for_archive_behind(server, time.time())
        server.terminate()
        shutil.rmtree(archive)
        (server.data / "archive.place").unlink()
        server.start()
        wait_for_archive_behind(server, time.time())
        assert list(archive.glob("*.partial"))
