"""Power cuts of the real binary, under load: `powercut/` stands between it and its files and keeps what was synced.

Each round starts the server under that layer, lets writers work until a seeded operation on the disk (or a seeded
number of acknowledgements) cuts it short, and starts it again without the layer. Now and then the cut falls into the
start itself, and a second one into the recovery from the first. `PANDO_POWER_ROUNDS` sets the number of rounds (10),
`PANDO_POWER_SEED` the seed (1). The seed decides where each cut falls and what it takes; which requests are just under
way there is up to the machine.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
from collections import Counter

import pytest

from crash import Workload
from pando_client import DEADLINE
from preload import build_library
from server import StartFailure, run
from strace import Trace

ROUNDS = int(os.environ.get("PANDO_POWER_ROUNDS", "10"))
SEED = int(os.environ.get("PANDO_POWER_SEED", "1"))
LIE_ROUNDS = 60  # within so many a lie must have been found out
SOURCES = sorted((pathlib.Path(__file__).parent / "powercut").glob("*.c"))
# Segments and checkpoints are made, and removed, within a round; each new segment syncs the one before.
SMALL = ("--segment-bytes", 65536, "--checkpoint-bytes", 131072)
# Few of them: it is the clock that syncs.
LARGE = ("--segment-bytes", 512 << 10, "--checkpoint-bytes", 512 << 10)
PADDING = 700  # characters in every third write
SYNC_DELAY = 2000  # microseconds a sync takes at most
INTERVAL = 0.1  # seconds an acknowledged write waits for its sync at most, under `interval`
BAD_DATA = 65  # exit code of a server that refuses its data
LATENESS = 1.0  # seconds that a busy machine may add


@pytest.fixture(scope="session")
def layer(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("powercut"), *SOURCES)


class Machine:
    """A server on a disk that loses power."""

    def __init__(self, servers, layer, tmp_path, seed, durability="always", sizes=SMALL, lie=""):
        self.server = servers(start=False, arguments=("--durability", durability, *sizes))
        self.layer, self.lie, self.seed, self.dice = layer, lie, seed, random.Random(seed)
        self.stash, self.report_path = tmp_path / "stash", tmp_path / "report.json"
        self.workload = Workload(padding=PADDING)
        self.cuts, self.totals = [], Counter()
        self.oldest_lost = 0  # seconds it had been acknowledged when the power went

    def start(self, after, counted="all"):
        """Starts under the layer, to be cut at that operation (0: at a signal), or at that one of those that touch
        `names`. Answers whether it came to listen.
        """
        shutil.rmtree(self.stash, ignore_errors=True)
        self.stash.mkdir()
        self.report_path.unlink(missing_ok=True)
        self.server.environment = {
            "LD_PRELOAD": str(self.layer),
            "POWERCUT_DIRECTORY": str(self.server.data),
            "POWERCUT_STASH": str(self.stash),
            "POWERCUT_REPORT": str(self.report_path),
            "POWERCUT_SEED": str(self.dice.getrandbits(63)),
            "POWERCUT_AFTER": str(after),
            "POWERCUT_COUNT": counted,
            "POWERCUT_DELAY": str(SYNC_DELAY),
            "POWERCUT_LIE": self.lie,
        }
        try:
            self.server.start()
            return True
        except StartFailure as failure:
            if failure.code != -signal.SIGKILL or not self.report_path.exists():
                raise
            return False

    def work(self):
        """One round up to the cut. Answers what the cut did."""
        fate = self.dice.random()
        if fate < 0.1:
            is_up = self.start(self.dice.randint(1, 12))  # in the start
        elif fate < 0.5:
            is_up = self.start(self.dice.randint(12, 500))
        elif fate < 0.85:
            is_up = self.start(self.dice.randint(4, 14), "names")  # while segments and checkpoints come and go
        else:
            is_up = self.start(0)
        if is_up:
            self.workload.begin(self.server.port)
            if fate >= 0.85:
                self.workload.acknowledgements.wait_for(self.dice.randint(20, 900))
                self.server.signal(signal.SIGUSR2)
            self.server.process.wait(3 * DEADLINE)
            self.workload.end()
        return self.note_cut()

    def note_cut(self):
        assert self.server.process.returncode == -signal.SIGKILL, self.server.stderr()
        cut = json.loads(self.report_path.read_text())
        self.cuts.append(cut)
        for fate in ("old", "new", "torn"):
            self.totals[f"sectors {fate}"] += cut["sectors"][fate]
        for fate in ("kept", "lost"):
            self.totals[f"names {fate}"] += cut["names"][fate]
        self.totals[f"at {cut['kind']}"] += 1
        return cut

    def come_back(self, inspects=True, **promises):
        """Power is there again: everything that was promised must be as well. `inspects`: `pando check data` has to
        find it in order before each start.
        """
        cut_at = self.cuts[-1]["at"]
        try:
            self.recover(inspects, promises)
            self.oldest_lost = max(self.oldest_lost, cut_at - self.workload.lost_since)
        except AssertionError as error:
            error.add_note(f"after cut {len(self.cuts)} of seed {self.seed}, {self.cuts[-1]}, of {self.server.data}")
            raise

    def recover(self, inspects, promises):
        if inspects:
            self.look()
        while self.dice.random() < 0.3:
            if self.start(self.dice.randint(1, 10)):
                # Never SIGKILL: it could come while the layer makes the directory what the cut has left of it.
                self.server.signal(signal.SIGUSR2)
                self.server.process.wait(DEADLINE)
            self.totals["cuts of a recovery"] += 1
            self.note_cut()
            if inspects:
                self.look()
        self.server.environment = {}
        self.server.start()
        self.workload.check(self.server.port, **promises)
        self.server.kill()

    def look(self):
        """`pando check data` finds a torn end, but no damage."""
        if not list(self.server.data.glob("journal-*.log")):
            return
        check = run("check", "data", self.server.data)
        assert check.returncode == 0, check.stdout + check.stderr

    @staticmethod
    def settled(cut):
        """When the journal's last finished sync began. Whatever was acknowledged before that is on the disk."""
        return max((when for name, when in cut["settled"].items() if name.startswith("journal-")), default=0)

    def story(self, durability):
        stderr = self.server.stderr(limit=1 << 30)
        rotations = stderr.count("a new segment of the journal")
        prepared = stderr.count(".log, prepared")
        checkpoints = len(re.findall(r"checkpoint at \d+: \d+ bytes", stderr))
        torn = stderr.count("writes at the end of the journal were removed")
        return (
            f"{durability}: {len(self.cuts)} power cuts, {self.workload.acknowledged_count} acknowledged writes, "
            f"{self.workload.lost_count} of them lost (none older than {self.oldest_lost * 1000:.0f} ms), "
            f"{self.workload.shown_count} values shown to others, "
            f"{rotations} new segments, {prepared} of them prepared, {checkpoints} checkpoints, {torn} torn ends; "
            + ", ".join(f"{count} {what}" for what, count in sorted(self.totals.items()))
        )


@pytest.mark.timeout(60 + 6 * ROUNDS)
def test_a_power_cut_loses_nothing_that_was_acknowledged_or_seen(servers, layer, tmp_path):
    machine = Machine(servers, layer, tmp_path, SEED)
    for _ in range(ROUNDS):
        machine.work()
        machine.come_back()
    print(machine.story("always"))


@pytest.mark.timeout(60 + 6 * ROUNDS)
def test_under_interval_a_power_cut_loses_at_most_the_last_100_ms(servers, layer, tmp_path):
    machine = Machine(servers, layer, tmp_path, SEED, "interval", LARGE)
    for _ in range(max(1, ROUNDS // 2)):
        cut = machine.work()
        until = max(machine.settled(cut), cut["at"] - INTERVAL - LATENESS)
        machine.come_back(until=until, sees_only_durable=False)
    print(machine.story("interval"))


@pytest.mark.timeout(60 + 6 * ROUNDS)
def test_under_none_a_power_cut_leaves_whole_entries_in_order(servers, layer, tmp_path):
    machine = Machine(servers, layer, tmp_path, SEED, "none", LARGE)
    for _ in range(max(1, ROUNDS // 2)):
        cut = machine.work()
        machine.come_back(until=machine.settled(cut), sees_only_durable=False)
    print(machine.story("none"))


@pytest.mark.timeout(60 + 6 * LIE_ROUNDS)
@pytest.mark.parametrize(
    ("durability", "lie"),
    [("always", "sync"), ("always", "rarely"), ("always", "directory"), ("none", "")],
    ids=["no-sync", "one-sync-in-four-is-none", "no-sync-of-names", "acknowledged-before-the-sync"],
)
def test_a_disk_that_ignores_syncs_is_detected(servers, layer, tmp_path, durability, lie):
    """The first test can fail: when the disk does not sync, or forgets names, or the server acknowledges early, it
    does. Acknowledged writes are missing, or the start refuses the data.
    """
    machine = Machine(servers, layer, tmp_path, SEED, durability, lie=lie)
    for number in range(1, LIE_ROUNDS + 1):
        machine.work()
        try:
            machine.come_back(inspects=False)
        except StartFailure as failure:
            assert failure.code == BAD_DATA, failure
            print(f"found out in round {number}: {str(failure).splitlines()[-1]}")
            return
        except AssertionError as error:
            assert "promised" in str(error) or "was seen" in str(error) or "onDisconnect" in str(error), error
            print(f"found out in round {number}: {str(error).splitlines()[0]}")
            return
    pytest.fail(f"{LIE_ROUNDS} power cuts, and nothing was missing")


# Whatever could change a file or a directory, on any Linux.
CHANGING = (
    "open openat openat2 creat write writev pwrite64 pwritev pwritev2 ftruncate truncate fallocate rename renameat "
    "renameat2 unlink unlinkat rmdir link linkat symlink symlinkat mkdir mkdirat mmap copy_file_range sendfile splice "
    "vmsplice fsync fdatasync sync_file_range syncfs sync io_uring_setup io_submit"
).split()
KINDS = {
    "openat": "open", "write": "write", "pwrite64": "write", "pwritev": "write", "ftruncate": "ftruncate",
    "fallocate": "fallocate", "renameat2": "rename", "unlinkat": "unlink", "mkdirat": "mkdir", "fsync": "fsync",
    "fdatasync": "fdatasync",
}  # fmt: skip
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")


def test_every_write_passes_the_layer(servers, layer, tmp_path):
    """Every system call that changes something in the data directory is one that the layer has counted."""
    server = servers(start=False, arguments=SMALL)
    log, stash = tmp_path / "operations.txt", tmp_path / "stash"
    stash.mkdir()
    settings = {"LD_PRELOAD": layer, "POWERCUT_DIRECTORY": server.data, "POWERCUT_STASH": stash, "POWERCUT_LOG": log}
    trace = Trace(server, tmp_path / "trace.txt", CHANGING, settings)
    server.start()
    workload = Workload(writers=2, padding=PADDING)
    workload.begin(server.port)
    server.wait_for_log("removed: ")
    server.terminate()
    workload.end()

    data = str(server.data)
    seen = Counter()
    for call in trace.calls():
        assert call.name not in ("io_uring_setup", "io_submit", "syncfs", "sync"), call
        strings = [os.fsdecode(string) for string in call.strings] if call.name not in WRITES else []
        names = [path.removesuffix(" (deleted)") for path in call.paths] + strings
        is_inside = any(path == data or path.startswith(data + "/") for path in names)
        if call.result is None or call.result < 0 or not is_inside:
            continue
        if call.name == "mmap" and "PROT_WRITE" not in call.arguments:
            continue
        if call.name in ("open", "openat") and "O_CREAT" not in call.arguments and "O_TRUNC" not in call.arguments:
            continue
        if call.name == "linkat" and str(stash) in " ".join(strings):
            continue  # the layer's own
        assert call.name in KINDS, call
        seen[KINDS[call.name]] += 1
    counted = Counter(line.split()[0] for line in log.read_text().splitlines())
    counted["fsync"] -= log.read_text().count("fsync ..")  # the data directory's parent
    assert seen == counted and set(seen) == set(KINDS.values()), (seen, counted)
