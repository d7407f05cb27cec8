"""A data directory belongs to one server, and its own name is durable before anything is acknowledged."""

import os

import pytest

from pando_client import Connection
from preload import build_library
from server import StartFailure

DISK_FAILURE, BAD_CONFIGURATION = 74, 78


@pytest.fixture(scope="module")
def parent_faults(tmp_path_factory):
    """A library: syncs of the directory PARENT fail while a file FAILS exists, and where HIDDEN is set, no parent can be opened."""
    folder = tmp_path_factory.mktemp("parent-faults")
    source = folder / "parent.c"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdarg.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/types.h>
        #include <unistd.h>
        static int mark(const char *variable) {
            const char *path = getenv(variable);
            int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT, 0600);
            return file < 0 ? -1 : close(file);
        }
        __attribute__((visibility("default"))) int fsync(int file) {
            char link[64], path[4096] = {0};
            snprintf(link, sizeof link, "/proc/self/fd/%d", file);
            const char *parent = getenv("PARENT"), *fails = getenv("FAILS");
            if (parent != NULL && readlink(link, path, sizeof path - 1) > 0 && strcmp(path, parent) == 0) {
                if (fails != NULL && access(fails, F_OK) == 0) { errno = EIO; return -1; }
                mark("SYNCED");
            }
            int (*next)(int);
            *(void **)&next = dlsym(RTLD_NEXT, "fsync");
            return next(file);
        }
        __attribute__((visibility("default"))) int syncfs(int file) {
            mark("SYNCED");
            int (*next)(int);
            *(void **)&next = dlsym(RTLD_NEXT, "syncfs");
            return next(file);
        }
        __attribute__((visibility("default"))) int openat(int directory, const char *path, int flags, ...) {
            va_list list;
            va_start(list, flags);
            mode_t mode = va_arg(list, mode_t);
            va_end(list);
            if (getenv("HIDDEN") != NULL && strcmp(path, "..") == 0) { errno = EACCES; return -1; }
            int (*next)(int, const char *, int, ...);
            *(void **)&next = dlsym(RTLD_NEXT, "openat");
            return next(directory, path, flags, mode);
        }
        """)
    return build_library(folder, source)


def prepared(servers, library, tmp_path, **variables):
    server = servers(start=False)
    server.environment = {
        "LD_PRELOAD": str(library), "PARENT": str(server.data.parent.resolve()), "SYNCED": str(tmp_path / "synced"),
        **variables}
    return server


def test_a_sync_of_the_parent_that_failed_is_made_by_the_next_start(servers, parent_faults, tmp_path):
    """The directory exists then, and a power cut would take its name with everything in it."""
    fails = tmp_path / "fails"
    server = prepared(servers, parent_faults, tmp_path, FAILS=str(fails))
    fails.touch()
    for _ in range(2):
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == DISK_FAILURE and "Input/output error" in str(failure.value)
        assert server.data.exists() and not (tmp_path / "synced").exists()
    fails.unlink()
    server.start()
    assert (tmp_path / "synced").exists()


def test_a_parent_that_cannot_be_read_is_synced_with_its_file_system(servers, parent_faults, tmp_path):
    server = prepared(servers, parent_faults, tmp_path, HIDDEN="1")
    for _ in range(2):
        server.start()
        assert (tmp_path / "synced").exists()
        (tmp_path / "synced").unlink()
        assert server.terminate() == 0


def test_a_removed_lock_file_lets_no_second_server_in(servers):
    first = servers()
    (first.data / "LOCK").unlink()
    second = servers(start=False, data=first.data)
    with pytest.raises(StartFailure) as failure:
        second.start()
    assert failure.value.code == BAD_CONFIGURATION and "in use by another process" in str(failure.value)
    with Connection(first.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    first.kill()
    second.start()
    with Connection(second.port, "default") as connection:
        assert connection.get("/a") == 1


@pytest.mark.parametrize("name", ["checkpoint-00000001-000000000000ffff.chk", "journal-00000001-000000000000ffff.log"])
def test_a_fifo_in_place_of_a_file_is_refused(servers, name):
    server = servers()
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    server.terminate()
    os.mkfifo(server.data / name)
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == DISK_FAILURE and f"{name}: open failed: not a regular file" in str(failure.value)
    (server.data / name).unlink()
    server.start()
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") == 1
