"""The table of REST rules against the real binary: one test per row, named by its sentence."""

import pytest

from rest_cases import all_rows


@pytest.mark.parametrize("one", [pytest.param(one, id=f"{subject}: {one}") for subject, one in all_rows()])
def test(one, request):
    if one.skip:
        pytest.skip(one.skip)
    world = request.getfixturevalue("world" if one.mode == "dev" else "locked_world")
    if one.mode == "locked":
        world.ns = "default"
    one.play(world)
