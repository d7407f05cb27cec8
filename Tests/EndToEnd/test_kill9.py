"""SIGKILL under load, again and again on one data directory: nothing acknowledged is lost, nothing is half there.

`PANDO_KILL_ROUNDS` sets the number of rounds (20), `PANDO_KILL_SEED` the seed. Each round is killed after a seeded
number of acknowledgements, not after a time, and everything else has a deadline. Whatever the durability: what a
process has written, the kernel keeps.
"""

import os
import random

import pytest

from crash import Workload
from pando_client import Connection

ROUNDS = int(os.environ.get("PANDO_KILL_ROUNDS", "20"))
OTHER_ROUNDS = max(1, ROUNDS // 4)  # over the transports that add nothing to what is on the disk
SEED = int(os.environ.get("PANDO_KILL_SEED", "1"))


@pytest.mark.timeout(60 + 3 * ROUNDS)
@pytest.mark.parametrize("durability, transport, rounds", [
    ("always", "ws", ROUNDS), ("interval", "ws", ROUNDS), ("none", "ws", ROUNDS),
    ("always", "lp", OTHER_ROUNDS), ("interval", "lp", OTHER_ROUNDS), ("always", "upgrade", OTHER_ROUNDS),
])
def test_nothing_acknowledged_is_lost_over_many_kills(servers, durability, transport, rounds):
    dice = random.Random(SEED)
    # Small segments: the kills fall into many of them, and into their making.
    server = servers(arguments=("--durability", durability, "--segment-bytes", 65536))

    def options():
        """A session that moves does so anywhere between its first message and its end."""
        moves = {"upgrade_after": dice.randint(0, 60)} if transport == "upgrade" else {}
        return {"transport": transport} | moves

    workload = Workload(transport=options)
    for _ in range(rounds):
        workload.begin(server.port)
        workload.acknowledgements.wait_for(dice.randint(20, 600))
        server.kill()
        workload.end()
        server.start()
        workload.check(server.port)
    assert workload.shown_count > 0, "no client was shown anything"
    stderr = server.stderr(limit=1 << 30)
    print(
        f"{durability}, {transport}: {rounds} kills from seed {SEED}: {workload.acknowledged_count} acknowledged writes, "
        f"{workload.shown_count} values shown to others, {stderr.count('a new segment of the journal')} new segments, "
        f"{stderr.count('.log, prepared')} of them prepared"
    )


def test_what_a_start_cuts_off_the_journal_is_kept_and_reported(servers):
    """The disk has damaged the last record: the start cannot know that it was not torn by the crash."""
    server = servers()
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": "kept"})
        connection.must("p", {"p": "/b", "d": "damaged"})
    server.kill()
    segment = next(server.data.glob("journal-*1.log"))
    bytes_before = segment.read_bytes()
    at = bytes_before.index(b"damaged")
    segment.write_bytes(bytes_before[:at] + b"D" + bytes_before[at + 1:])
    server.start()
    with Connection(server.port, "default") as connection:
        assert connection.get("/") == {"a": "kept"}
    copies = list(server.data.glob("*.torn-*"))
    assert len(copies) == 1 and b"Damaged" in copies[0].read_bytes()
    offset = int(copies[0].name.split("-")[-2])
    assert offset < at and bytes_before[offset:at].endswith(copies[0].read_bytes().split(b"Damaged")[0])
    log = server.stderr()
    assert f"of {segment.name}, from byte {offset} on" in log and copies[0].name in log, log
    # It is no part of the journal, and no other program's file.
    server.restart()
    assert list(server.data.glob("*.torn-*")) == copies
