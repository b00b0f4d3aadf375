"""The cache doesn't trust, wait for, follow or remove anything that others put in its folder."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from weft.cache import disk_cache as cache
from weft.cache.disk_cache import Cache
from weft.errors import WeftError


@pytest.fixture
def entry(tmp_path):
    """The path of the entry that `ask` asks for."""
    assert ask(tmp_path) == b"made"
    (path,) = tmp_path.iterdir()
    return path


def ask(directory: Path, data: bytes = b"made") -> bytes:
    return Cache(directory).get_or_make("k", ["x"], lambda: data)


def left_alone(path: Path, reason: str) -> None:
    """What is at an entry's path isn't served, costs one warning that gives the reason, and stays."""
    before = path.lstat()
    kept = Cache(path.parent)
    with pytest.warns(UserWarning) as caught:
        for _ in range(3):
            assert kept.get_or_make("k", ["x"], lambda: b"made now") == b"made now"
    assert len(caught) == 1 and "weft compiles uncached: " in str(caught[0].message)
    assert reason in str(caught[0].message) and str(path) in str(caught[0].message)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)


def test_a_fifo_isnt_waited_for(entry):
    entry.unlink()
    os.mkfifo(entry, 0o600)
    left_alone(entry, "isn't a regular file")


def test_a_directory_isnt_an_entry(entry):
    entry.unlink()
    entry.mkdir(0o700)
    left_alone(entry, "isn't a regular file")


def test_a_link_isnt_followed(entry, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)
    left_alone(entry, "isn't a regular file")
    entry.unlink()
    entry.symlink_to("/dev/zero")  # would never end
    left_alone(entry, "isn't a regular file")


def test_a_socket_isnt_an_entry(entry, monkeypatch):
    entry.unlink()
    monkeypatch.chdir(entry.parent)  # the whole path is too long for a socket's address
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(entry.name)
    entry.chmod(0o700)
    left_alone(entry, "isn't a regular file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_isnt_read(entry):
    entry.unlink()
    try:
        os.mknod(entry, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError as error:
        pytest.skip(f"no devices here: {error}")
    left_alone(entry, "isn't a regular file")


def test_an_entry_that_others_can_write_isnt_believed(entry):
    for mode in (0o620, 0o602, 0o666):
        entry.chmod(mode)
        left_alone(entry, f"run `chmod go-w {entry}`")
    entry.chmod(0o644)  # that others can read it is harmless
    assert ask(entry.parent, b"other") == b"made"


def test_an_entry_of_another_user_isnt_believed(entry, monkeypatch):
    real = os.fstat

    def fstat(descriptor):
        found = real(descriptor)
        return os.stat_result([*found[:4], 12345, *found[5:10]])

    monkeypatch.setattr("os.fstat", fstat)
    left_alone(entry, "belongs to user 12345")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_that_another_user_wrote_isnt_believed(entry):
    os.chown(entry, 12345, -1)
    left_alone(entry, "belongs to user 12345")


def test_a_huge_entry_isnt_read_into_memory(entry):
    os.truncate(entry, 1 << 40)
    began = time.perf_counter()
    assert ask(entry.parent, b"again") == b"again"
    assert time.perf_counter() - began < 5
    assert entry.stat().st_size < 1000  # ours, and broken: made again


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_directory_that_others_can_write_is_left_alone(entry, mode):
    directory = entry.parent
    directory.chmod(mode)
    kept = Cache(directory)
    with pytest.warns(UserWarning, match="others can write .*: run `chmod go-w ") as caught:
        for number in range(3):
            assert kept.get_or_make("k", [str(number)], lambda: b"new") == b"new"
        assert kept.get_or_make("k", ["x"], lambda: b"made now") == b"made now"
    assert len(caught) == 1
    assert list(directory.iterdir()) == [entry]
    with pytest.raises(WeftError, match="chmod go-w"):
        kept.check()
    directory.chmod(0o755)
    assert ask(directory, b"other") == b"made"


def test_a_directory_of_another_user_is_left_alone(entry, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: entry.stat().st_uid + 1)
    kept = Cache(entry.parent)
    with pytest.warns(UserWarning, match="belongs to user .*: set WEFT_CACHE_DIR to a directory of your own"):
        assert kept.get_or_make("k", ["x"], lambda: b"new") == b"new"
    with pytest.raises(WeftError, match="belongs to user"):
        kept.check()
    kept.limit_bytes = 0
    kept.prune()
    assert list(entry.parent.iterdir()) == [entry]


def test_a_directory_may_be_reached_by_a_link(entry, tmp_path_factory):
    link = tmp_path_factory.mktemp("home") / "link"
    link.symlink_to(entry.parent)
    assert ask(link, b"other") == b"made"


def test_prune_removes_only_files_of_our_own(entry):
    directory = entry.parent
    names = [f"k-{digit * 64}" for digit in "abc"]
    os.mkfifo(directory / names[0])
    (directory / names[1]).mkdir()
    (directory / names[2]).write_bytes(bytes(1000))
    (directory / names[2]).chmod(0o666)
    Cache(directory, limit_bytes=0).prune()
    assert sorted(path.name for path in directory.iterdir()) == names


def test_a_user_without_a_home_has_no_cache(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: f"~/.cache/{name}")  # as it is then
    assert cache.default().directory is None
    assert not list(tmp_path.iterdir())


def test_a_relative_directory_stays_where_it_was(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_CACHE_DIR", "here")
    assert cache.default().directory == tmp_path / "here"


WRITER = """
import os, sys, time
from pathlib import Path
from weft.system import output_files
from weft.cache.disk_cache import Cache
output_files.replace = lambda *paths: (print("writing", flush=True), time.sleep(60))
Cache(Path(sys.argv[1])).get_or_make("k", ["x"], lambda: b"made")
"""


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=10)
    (left,) = tmp_path.iterdir()
    assert ask(tmp_path) == b"made" and left.exists()  # it may be another's that still writes it
    old = time.time() - cache._STALE_SECONDS - 1
    os.utime(left, (old, old))
    kept, writes = Cache(tmp_path), cache._WRITES_PER_PRUNE
    for number in range(writes):
        kept.get_or_make("k", [f"y{number}"], lambda: b"made")
    assert not left.exists() and len(list(tmp_path.iterdir())) == 1 + writes


def test_threads_make_an_entry_once(tmp_path):
    kept, calls, found = Cache(tmp_path), [], []

    def make() -> bytes:
        calls.append(threading.get_ident())
        time.sleep(0.1)
        return b"made"

    threads = [
        threading.Thread(target=lambda: found.append(kept.get_or_make("k", ["x"], make))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(calls) == 1 and found == [b"made"] * 8
    assert not any(of() for of in cache._locks.values())


def test_threads_dont_wait_for_what_others_make(tmp_path):
    kept, both = Cache(tmp_path), threading.Barrier(2, timeout=10)

    def ask_for(name: str) -> None:
        kept.get_or_make("k", [name], lambda: bytes([both.wait()]))

    threads = [threading.Thread(target=ask_for, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_lets_the_next_thread_make_it(tmp_path):
    kept = Cache(tmp_path)

    def fail() -> bytes:
        raise WeftError("no")

    with pytest.raises(WeftError):
        kept.get_or_make("k", ["x"], fail)
    assert kept.get_or_make("k", ["x"], lambda: b"made") == b"made"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent(tmp_path):
    kept, within, done = Cache(tmp_path), threading.Event(), threading.Event()

    def make() -> bytes:
        within.set()
        done.wait(20)
        return b"parent"

    thread = threading.Thread(target=kept.get_or_make, args=("k", ["x"], make))
    thread.start()
    assert within.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(kept.get_or_make("k", ["x"], lambda: b"child") != b"child")
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        status = -1
    done.set()
    thread.join(10)
    assert status == 0


def test_an_invalid_entry_is_computed_again(tmp_path):
    kept = Cache(tmp_path)
    assert kept.get_or_make("k", ["x"], lambda: b"wrong") == b"wrong"
    assert kept.get_or_make("k", ["x"], lambda: b"right", lambda data: data == b"right") == b"right"
    assert kept.get_or_make("k", ["x"], lambda: b"other") == b"right"


def test_an_entry_whose_inputs_change_during_computation_is_not_kept(tmp_path):
    kept, version = Cache(tmp_path), ["1"]

    def make() -> bytes:
        version[0] = "2"
        return b"of 1, or of 2?"

    kept.get_or_make("k", ["1"], make, same=lambda: version == ["1"])
    assert not list(tmp_path.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept.get_or_make("k", None, lambda: b"never kept") == b"never kept"
    assert not list(tmp_path.iterdir())
