"""Libraries of ours that are loaded into the server before the C library."""

import shutil
import subprocess

import pytest


def build_library(folder, *sources):
    """Compiles C sources to a shared library in the folder; skips the test where there is no C compiler."""
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        pytest.skip("a C compiler is not installed")
    library = folder / "preloaded.so"
    flags = "-std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -pthread".split()
    subprocess.run([compiler, *flags, "-o", library, *sources], check=True, timeout=60)
    return library
