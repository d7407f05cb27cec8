"""The table of protocol cases against the real binary: one test per row, named by its sentence."""

import pytest

from cases import all_cases


@pytest.mark.parametrize("case", [pytest.param(row, id=f"{subject}: {row}") for subject, row in all_cases()])
def test(case, request):
    world = request.getfixturevalue("world" if case.mode == "dev" else "locked_world")
    case.play(world)
