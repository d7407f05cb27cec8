"""Libraries of ours that are loaded into the server before the C library."""

import pathlib
import shutil
import subprocess

import pytest

import server

DISK_FAULTS = pathlib.Path(__file__).with_name("disk_faults.c")


def build_library(folder, *sources):
    """Compiles C sources to a shared library in the folder; skips the test where there is no C compiler."""
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        pytest.skip("a C compiler is not installed")
    library = folder / "preloaded.so"
    flags = "-std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -pthread".split()
    subprocess.run([compiler, *flags, "-o", library, *sources], check=True, timeout=60)
    return library


def run_on_bad_disk(library, *arguments, **faults):
    """Runs one command with faults of the disk: variables of disk_faults.c, of which `library` was built."""
    environment = server.clean_environment() | {"LD_PRELOAD": str(library)} | faults
    return subprocess.run([str(server.BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env=environment)
