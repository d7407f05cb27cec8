"""Disks of backups and of the archive that do not answer, as one on the network whose server is gone: clients are served, the start and
the end of a server do not wait for them, and everything goes on when they answer."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from preload import build_library
from server import StartFailure, clean_environment
from test_import import BAD_CONFIGURATION, BAD_DATA, exported
from test_scheduled_backups import backups, metric, put, wait_for_archive_behind, wait_for_backup_behind
from waiting import wait_for

SOURCE = pathlib.Path(__file__).with_name("hanging.c")
LIMIT = 60  # seconds: no service manager of deploy/ waits for less until it kills the process
DISK_FAILURE = 74
# What the log says once the directory was used for the first time.
USED = {"--backup-to": "a backup is made every 1 s in ", "--archive-to": "the journal is archived in "}
OPTIONS = ["--backup-to", "--archive-to"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("hanging"), SOURCE)


class Disk:
    """A directory whose disk answers or not, and the server that uses it."""

    def __init__(self, servers, library, folder, option, arguments=()):
        self.option, self.place = option, folder / "place"
        self.flag, self.reached = folder / "hangs", folder / "reached"
        self.arguments = ["--admin-listen", "0", option, self.place, *arguments]
        if option == "--backup-to":
            self.arguments += ["--backup-every", "1s"]
        self.server = servers(start=False, arguments=self.arguments)
        self.server.environment = {
            "LD_PRELOAD": str(library), "HANG_BELOW": str(self.place), "HANG_WHILE": str(self.flag),
            "HANG_REACHED": str(self.reached)}

    def start_used(self):
        """Starts a server that uses it, with a value that it has; answers the server."""
        self.server.start()
        put(self.server, "/before", 1)
        self.wait_until_used()
        return self.server

    def no_answer(self):
        """What the log says once a start has waited for it in vain."""
        return f"{self.option}: the disk of {self.place} has not answered"

    def refuse_start(self):
        """Starts the server while it hangs, which something else must refuse, without waiting for it. Answers the exit code."""
        self.hang()
        earlier = len(self.server.stderr(limit=1 << 30))
        with pytest.raises(StartFailure) as failure:
            self.server.start()
        assert self.reached.exists(), "the start has not tried to use it"
        # A start that waits for a disk says so before it ends.
        assert self.no_answer() not in self.server.stderr(limit=1 << 30)[earlier:]
        return failure.value.code

    def wait_until_used(self):
        """Waits until it has everything that was acknowledged before."""
        wait = wait_for_backup_behind if self.option == "--backup-to" else wait_for_archive_behind
        wait(self.server, time.time())

    def hang(self):
        self.reached.unlink(missing_ok=True)
        self.flag.touch()

    def wait_until_it_hangs(self):
        wait_for(self.reached.exists, "call that waits for the disk")

    def answer(self):
        self.flag.unlink()

    def end(self):
        """SIGTERM; answers the exit code."""
        self.server.signal(signal.SIGTERM)
        return self.server.process.wait(LIMIT)


@pytest.fixture
def disk(servers, library, tmp_path):
    return lambda option, *arguments: Disk(servers, library, tmp_path, option, arguments)


def set_back(server, snapshot):
    """Replaces the data directory by an earlier copy of it."""
    shutil.rmtree(server.data)
    shutil.copytree(snapshot, server.data)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_end_does_not_wait_for_it_and_loses_nothing(disk, option):
    disk = disk(option)
    server = disk.start_used()
    disk.hang()
    put(server, "/meanwhile", 2)
    disk.wait_until_it_hangs()
    assert disk.end() == 0
    log = server.stderr(limit=1 << 20)
    assert f"stopping: {disk.no_answer()}" in log
    # Neither was the cause.
    assert "have not read all output" not in log and "the last checkpoint is cancelled" not in log
    assert exported(server.data) == {"before": 1, "meanwhile": 2}
    disk.answer()
    server.start()
    disk.wait_until_used()
    assert server.terminate() == 0


@pytest.mark.parametrize("option", OPTIONS)
def test_a_start_does_not_wait_for_it(disk, option):
    disk = disk(option)
    server = disk.start_used()
    server.terminate()
    disk.hang()
    earlier = server.stderr_path.stat().st_size
    server.start()
    put(server, "/meanwhile", 2)
    server.wait_for_log(disk.no_answer())
    # The log does not say that it is used before it was looked at.
    assert USED[option] not in server.stderr_path.read_text()[earlier:]
    use = "backup" if option == "--backup-to" else "archive"
    wait_for(lambda: metric(server, "pando_backup_operation_seconds", use=use) >= 1)
    disk.answer()
    disk.wait_until_used()
    wait_for(lambda: metric(server, "pando_backup_operation_seconds", use=use) == 0)
    wait_for(lambda: USED[option] + str(disk.place) in server.stderr_path.read_text()[earlier:])
    assert server.terminate() == 0


@pytest.mark.parametrize("option", OPTIONS)
def test_a_start_on_a_damaged_directory_does_not_wait_for_it(disk, option):
    disk = disk(option)
    server = disk.start_used()
    server.terminate()
    for segment in server.data.glob("journal-*.log"):
        segment.write_bytes(b"?" + segment.read_bytes()[1:])
    assert disk.refuse_start() == BAD_DATA, server.stderr()


def test_a_start_that_the_archive_refuses_does_not_wait_for_backups_that_hang(servers, disk, tmp_path):
    archive = tmp_path / "archive"
    other = servers(arguments=["--admin-listen", "0", "--archive-to", archive])
    put(other, "/other", 1)
    wait_for_archive_behind(other, time.time())
    other.terminate()
    disk = disk("--backup-to", "--archive-to", archive)
    assert disk.refuse_start() == BAD_CONFIGURATION, disk.server.stderr()


def test_a_start_that_the_backups_refuse_does_not_wait_for_an_archive_that_hangs(disk, tmp_path):
    folder = tmp_path / "backups"
    disk = disk("--archive-to", "--backup-every", "1s", "--backup-to", folder)
    server = disk.server.start()
    snapshot = tmp_path / "snapshot"
    shutil.copytree(server.data, snapshot)
    put(server, "/later", 1)
    wait_for_backup_behind(server, time.time())
    server.terminate()
    set_back(server, snapshot)
    assert disk.refuse_start() == BAD_CONFIGURATION, server.stderr()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_server_that_has_started_without_it_ends(disk, option):
    disk = disk(option)
    disk.hang()
    server = disk.server.start()
    put(server, "/meanwhile", 1)
    assert disk.end() == 0
    assert exported(server.data) == {"meanwhile": 1}


@pytest.mark.parametrize("option", OPTIONS)
def test_sigterm_ends_a_start_that_waits_for_it(disk, option, tmp_path):
    disk = disk(option)
    disk.hang()
    with open(tmp_path / "stderr.txt", "wb") as stderr:
        process = subprocess.Popen(
            disk.server.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            env=clean_environment() | disk.server.environment, cwd=disk.server.folder)
    try:
        disk.wait_until_it_hangs()
        process.terminate()
        # On a busy machine the start may be over by then.
        assert process.wait(LIMIT) in (-signal.SIGTERM, 0)
    finally:
        process.kill()
        process.wait(LIMIT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a namespace of processes")
def test_sigterm_ends_a_start_that_waits_for_it_in_a_container(disk, tmp_path):
    """The first process of a container gets only the signals that it handles."""
    disk = disk("--backup-to")
    disk.hang()
    with open(tmp_path / "stderr.txt", "wb") as stderr:
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", *disk.server.command], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=stderr, env=clean_environment() | disk.server.environment,
            cwd=disk.server.folder)
    try:
        disk.wait_until_it_hangs()
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        # On a busy machine the start may be over by then.
        assert process.wait(LIMIT) in (128 + signal.SIGTERM, 0)
    finally:
        process.kill()
        process.wait(LIMIT)


def test_backups_go_on_while_the_archive_hangs(disk, tmp_path):
    folder = tmp_path / "backups"
    disk = disk(
        "--archive-to", "--archive-keep", "1s", "--backup-every", "1s", "--backup-to", folder, "--backup-keep", "1,0,0")
    server = disk.start_used()
    wait_for(lambda: backups(folder))
    disk.hang()
    put(server, "/meanwhile", 2)
    disk.wait_until_it_hangs()
    written = metric(server, "pando_scheduled_backups_total", result="written")
    wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="written") >= written + 3, "further backups")
    assert metric(server, "pando_scheduled_backups_total", result="failed") == 0
    wait_for(lambda: metric(server, "pando_backup_operation_seconds", use="archive") >= 2)
    disk.answer()
    disk.wait_until_used()
    assert server.terminate() == 0


def test_an_archive_that_was_silent_at_the_start_and_is_ahead_is_left_as_it_is(disk, tmp_path):
    """The start does not wait for it, so nothing is refused; then the server finds the conflict, and removes nothing."""
    disk = disk("--archive-to", "--segment-bytes", "1048576")
    server = disk.server.start()
    disk.wait_until_used()
    server.terminate()
    snapshot = tmp_path / "snapshot"
    shutil.copytree(server.data, snapshot)
    server.start()
    for number in range(20):
        put(server, f"/archived/{number}", "x" * 200_000)
    disk.wait_until_used()
    server.terminate()
    archived = segments(disk.place)
    assert len(archived) >= 3
    set_back(server, snapshot)
    server.command += [
        "--archive-keep", "1s", "--backup-every", "1s", "--backup-to", str(tmp_path / "backups")]
    disk.hang()
    server.start()
    for number in range(40):
        put(server, f"/other/{number}", "x" * 200_000)
    # Of one that reaches further than the archive and is old enough.
    written = metric(server, "pando_scheduled_backups_total", result="written")
    wait_for(lambda: metric(server, "pando_scheduled_backups_total", result="written") >= written + 4, "backups")
    disk.answer()
    wait_for(lambda: metric(server, "pando_archive_failures_total", reason="conflict") >= 2, "conflict")
    assert segments(disk.place) == archived
    assert "archived segments removed" not in server.stderr(limit=1 << 20)
    assert server.terminate() == 0


def segments(archive):
    return sorted(path.name for path in archive.iterdir() if path.name.startswith("journal-"))


def test_a_data_directory_that_cannot_be_opened_is_a_disk_failure(servers, library):
    """The server opens it several times, for its threads."""
    server = servers()
    put(server, "/a", 1)
    server.terminate()
    codes = []
    for number in range(1, 13):
        server.environment = {
            "LD_PRELOAD": str(library), "FAIL_OPEN_OF": str(server.data), "FAIL_OPEN_AT": str(number)}
        try:
            server.start()
        except StartFailure as failure:
            codes.append(failure.code)
        server.kill()
    assert len(codes) >= 3 and set(codes) == {DISK_FAILURE}, codes
