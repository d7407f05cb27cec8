"""The table of protocol cases against the real binary: one test per row and transport, named by its sentence."""

import pytest

from cases import all_cases
from transports import TRANSPORTS


def rows():
    """Each row over each transport that it is about (`over` in its data)."""
    for transport in TRANSPORTS:
        for subject, row in all_cases():
            if transport in row.over:
                name = f"{subject}: {row}" + ("" if transport == "ws" else f" ({transport})")
                yield pytest.param(row, transport, id=name)


@pytest.mark.parametrize("case, transport", rows())
def test(case, transport, request):
    world = request.getfixturevalue("world" if case.mode == "dev" else "locked_world")
    case.play(world)
