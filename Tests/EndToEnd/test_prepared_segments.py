"""Segments that are written full of zeros before they are needed: what reads the directory meanwhile, and after a crash or a
stop, finds the journal and nothing else."""

import re
import subprocess
import time

import pytest

from pando_client import DEADLINE, Connection
from server import run

SEGMENT_BYTE_COUNT = 65536
ARGUMENTS = ("--segment-bytes", SEGMENT_BYTE_COUNT)
TAKEN = re.compile(r"a new segment of the journal: (journal-\S+\.log), prepared")


@pytest.fixture
def server(servers, tmp_path):
    # Where writing over bytes is not known to be cheaper, nothing is prepared.
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True, timeout=10)
    if kind.stdout.strip() != "ext2/ext3":
        pytest.skip(f"nothing is prepared on {kind.stdout.strip()}")
    return servers(arguments=ARGUMENTS)


def write_until_taken(server, connection, number=0):
    """Acknowledged puts until one of them went into a segment that was prepared. Answers how many there have been, and the
    segment."""
    deadline = time.monotonic() + 3 * DEADLINE
    known = len(TAKEN.findall(server.stderr(10**7)))
    while True:
        assert time.monotonic() < deadline, f"no prepared segment is taken\n{server.stderr()}"
        connection.must("p", {"p": f"/rows/r{number}", "d": "x" * 500 + str(number)})
        number += 1
        taken = TAKEN.findall(server.stderr(10**7))
        if len(taken) > known:
            return number, server.data / taken[-1]


def rows(server):
    with Connection(server.port, "default") as connection:
        return connection.get("/rows")


def expected(count):
    return {f"r{number}": "x" * 500 + str(number) for number in range(count)}


def assert_whole(server, entry_count):
    """Both tools read all of it, and find nothing wrong."""
    check = run("check", "data", server.data)
    assert check.returncode == 0 and "unfinished" not in check.stdout + check.stderr, check.stdout + check.stderr
    log = run("log", server.data)
    assert log.returncode == 0, log.stderr
    assert sum("/rows/r" in line for line in log.stdout.splitlines()) == entry_count, "one line for each put"


def test_unfilled_zeros_are_no_part_of_the_log(server):
    with Connection(server.port, "default") as connection:
        count, segment = write_until_taken(server, connection)
        assert segment.stat().st_size == SEGMENT_BYTE_COUNT, "the segment has the length that was prepared"
        assert segment.read_bytes().endswith(bytes(1024)), "and is zeros where it is not filled"
        assert_whole(server, count)

        copy = server.folder / "copy"
        backup = run("backup", "--data", server.data, "--output", copy, "--with-log")
        assert backup.returncode == 0, backup.stderr
        assert (copy / segment.name).stat().st_size < SEGMENT_BYTE_COUNT, "a copy takes what was written"
        assert run("check", "data", copy).returncode == 0

    server.kill()
    assert_whole(server, count)
    server.start()
    assert rows(server) == expected(count)
    log = server.stderr(10**7)
    assert "bytes that were reserved at the end of the journal were given back" in log and "unsynced writes" not in log

    # It goes on, into the next one too.
    with Connection(server.port, "default") as connection:
        count, _ = write_until_taken(server, connection, count)
    server.restart()
    assert rows(server) == expected(count)


def test_a_stop_leaves_only_the_log(server):
    with Connection(server.port, "default") as connection:
        count, segment = write_until_taken(server, connection)
    assert server.terminate() == 0
    assert segment.stat().st_size < SEGMENT_BYTE_COUNT
    assert segment.stat().st_blocks * 512 <= segment.stat().st_size + 3 * 4096, "no room is held behind its end"
    assert not list(server.data.glob("*.new"))
    assert_whole(server, count)
    server.start()
    assert rows(server) == expected(count)
    assert "unsynced writes" not in server.stderr(10**7)


def test_the_prepared_file_belongs_to_no_log(server):
    """Removed by hand at any moment, it is not missed."""
    with Connection(server.port, "default") as connection:
        count, _ = write_until_taken(server, connection)
        for _ in range(3):
            deadline = time.monotonic() + DEADLINE
            while not (prepared := list(server.data.glob("journal-prepared.log.new"))):
                assert time.monotonic() < deadline, "nothing is prepared"
                connection.must("p", {"p": f"/rows/r{count}", "d": "x" * 500 + str(count)})
                count += 1
            prepared[0].unlink(missing_ok=True)
            segments = len(list(server.data.glob("journal-*.log")))
            while len(list(server.data.glob("journal-*.log"))) == segments:
                connection.must("p", {"p": f"/rows/r{count}", "d": "x" * 500 + str(count)})
                count += 1
    server.restart()
    assert rows(server) == expected(count)
