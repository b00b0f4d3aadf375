"""The cache of compiled kernels: entries, limits, and processes that share it."""

import errno
import multiprocessing
import os
import time
import warnings
from pathlib import Path

import pytest

from weft.cache import disk_cache as cache
from weft.cache.disk_cache import Cache
from weft.errors import WeftError

KINDS = 16
ROUNDS = 30


def content(number: int) -> bytes:
    return bytes([number]) * (1000 + 10_000 * number)


def hammer(directory: str, limit_bytes: int, failed) -> None:
    """Reads, makes, damages and prunes entries as fast as it can, as one of several processes."""
    kept = Cache(Path(directory), limit_bytes=limit_bytes)
    with warnings.catch_warnings(record=True) as caught:
        for turn in range(ROUNDS):
            for number in range(KINDS):
                if kept.get_or_make("cubin", [str(number)], lambda n=number: content(n)) != content(number):
                    failed.value = 1
            if turn % 10 == os.getpid() % 10:
                for path in Path(directory).glob("cubin-*"):
                    path.write_bytes(b"half an ent")
            if turn % 5 == 0:
                kept.prune()
    if caught:
        failed.value = 2


@pytest.mark.slow
@pytest.mark.parametrize("limit_bytes", [cache.LIMIT_BYTES, 200_000])
def test_processes_share_a_directory(tmp_path, limit_bytes):
    context = multiprocessing.get_context("spawn")
    failed = context.Value("i", 0)
    started = [context.Process(target=hammer, args=(str(tmp_path), limit_bytes, failed)) for _ in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 4
    assert failed.value == 0
    assert not list(tmp_path.glob(".new-*"))


def collect(directory: str, number: int) -> None:
    """Adds numbers to an entry, as one of several processes."""
    for turn in range(20):
        Cache(Path(directory)).change("list", ["key"], lambda old, t=turn: (old or b"") + bytes([number, t]))


@pytest.mark.slow
def test_processes_change_an_entry_one_after_the_other(tmp_path):
    kept = Cache(tmp_path)
    assert kept.find("list", ["key"]) is None
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=collect, args=(str(tmp_path), number)) for number in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    found = kept.find("list", ["key"])
    added = {found[i : i + 2] for i in range(0, len(found), 2)}
    assert added == {bytes([number, turn]) for number in range(3) for turn in range(20)}
    assert kept.find("list", ["other"]) is None


def test_without_a_directory_nothing_is_found_or_changed(tmp_path):
    Cache(None).change("list", ["key"], lambda old: b"new")
    assert Cache(None).find("list", ["key"]) is None


def test_another_users_directory_is_not_changed(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="others can write"):
        Cache(tmp_path).change("list", ["key"], lambda old: b"new")
    with pytest.warns(UserWarning, match="others can write"):
        assert Cache(tmp_path).find("list", ["key"]) is None
    assert not list(tmp_path.iterdir())


class Maker:
    def __init__(self, data: bytes = b"made") -> None:
        self.data = data
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return self.data


def test_an_entry_is_computed_once(tmp_path):
    make = Maker()
    for kept in (Cache(tmp_path / "a" / "b"), Cache(tmp_path / "a" / "b")):
        assert kept.get_or_make("ptx", ["x", b"y"], make) == b"made"
    assert make.calls == 1


def test_keys_dont_run_into_each_other(tmp_path):
    kept = Cache(tmp_path)
    keys = [
        ("k", ["ab", "c"]),
        ("k", ["a", "bc"]),
        ("k", ["abc"]),
        ("k", ["abc", ""]),
        ("k", []),
        ("ka", ["bc"]),
    ]
    for number, (kind, parts) in enumerate(keys):
        assert kept.get_or_make(kind, parts, Maker(bytes([number]))) == bytes([number])
    assert kept.get_or_make("k", [b"ab", b"c"], Maker()) == b"\0"


@pytest.mark.parametrize("data", [b"", b"\0" * 100_000])
def test_data_of_any_length_comes_back(tmp_path, data):
    kept = Cache(tmp_path)
    assert kept.get_or_make("k", [], Maker(data)) == kept.get_or_make("k", [], Maker(b"other")) == data


def damage_by_cutting(entry: bytes) -> list[bytes]:
    return [entry[:length] for length in (0, 1, 7, 8, 40, 47, 48, len(entry) - 1)]


def damage_by_flipping(entry: bytes) -> list[bytes]:
    return [entry[:at] + bytes([entry[at] ^ 1]) + entry[at + 1 :] for at in range(len(entry))]


def damage_by_others(entry: bytes) -> list[bytes]:
    return [b"garbage", entry + b"more", os.urandom(len(entry)), b"\0" * len(entry)]


@pytest.mark.parametrize("damages", [damage_by_cutting, damage_by_flipping, damage_by_others])
def test_a_damaged_entry_is_computed_again(tmp_path, damages):
    kept = Cache(tmp_path)
    kept.get_or_make("k", ["x"], Maker())
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in damages(whole):
        path.write_bytes(damaged)
        make = Maker()
        assert kept.get_or_make("k", ["x"], make) == b"made"
        assert make.calls == 1
        assert path.read_bytes() == whole


def test_an_entry_under_anothers_name_isnt_taken(tmp_path):
    kept = Cache(tmp_path)
    kept.get_or_make("k", ["x"], Maker(b"x"))
    (first,) = tmp_path.iterdir()
    kept.get_or_make("k", ["y"], Maker(b"y"))
    (second,) = set(tmp_path.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    assert kept.get_or_make("k", ["y"], Maker(b"y")) == b"y"


def test_a_failure_isnt_kept(tmp_path):
    def fail() -> bytes:
        raise WeftError("no")

    kept = Cache(tmp_path)
    with pytest.raises(WeftError):
        kept.get_or_make("k", [], fail)
    assert not list(tmp_path.iterdir())
    assert kept.get_or_make("k", [], Maker()) == b"made"


def test_a_directory_that_cant_be_written_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    kept = Cache(tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="weft compiles uncached: .*Not a directory") as caught:
        for number in range(3):
            assert kept.get_or_make("k", [str(number)], Maker()) == b"made"
    assert [warning.filename for warning in caught] == [__file__]  # the line of who asked


def test_a_check_leaves_nothing_but_a_directory_of_the_users_own(tmp_path):
    kept = Cache(tmp_path / "cache")
    kept.check()
    assert kept.directory.stat().st_mode & 0o777 == 0o700 and not list(kept.directory.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        Cache(tmp_path / "file" / "cache").check()
    Cache(None).check()


def test_a_read_only_directory_still_serves(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    Cache(tmp_path).get_or_make("k", ["kept"], Maker())
    # Root may write anywhere, so not by chmod.
    for call in ("tempfile.mkstemp", "os.utime"):
        monkeypatch.setattr(call, refuse)
    kept = Cache(tmp_path)
    assert kept.get_or_make("k", ["kept"], Maker(b"made again")) == b"made"
    with pytest.warns(UserWarning, match="Permission denied"):
        assert kept.get_or_make("k", ["new"], Maker()) == b"made"


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("weft.system.output_files.replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert Cache(tmp_path).get_or_make("k", [], Maker()) == b"made"
    assert not list(tmp_path.iterdir())


def test_no_entry_waits_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("waits"))
    assert Cache(tmp_path).get_or_make("k", [], Maker()) == b"made"
    (entry,) = tmp_path.iterdir()
    os.truncate(entry, 0)  # as a power cut may leave it
    assert Cache(tmp_path).get_or_make("k", [], Maker()) == b"made" and entry.stat().st_size


def test_prune_removes_what_was_used_least_recently(tmp_path):
    kept = Cache(tmp_path, limit_bytes=10_000)
    kept._writes = 0  # otherwise, one of them prunes in some processes
    for number in range(8):
        kept.get_or_make("k", [str(number)], Maker(bytes(2000)))
        for path in tmp_path.iterdir():
            status = path.stat()
            os.utime(path, (status.st_atime, status.st_mtime - 10))
    kept.get_or_make("k", ["0"], Maker())
    kept.prune()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 7_500
    again = [Maker() for _ in range(8)]
    for number in (0, 7, 6):
        kept.get_or_make("k", [str(number)], again[number])
    assert [make.calls for make in again] == [0] * 8
    kept.get_or_make("k", ["1"], again[1])
    assert again[1].calls == 1


def test_prune_leaves_what_isnt_ours(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("x" * 1000)
    stale, fresh = tmp_path / ".new-stale", tmp_path / ".new-fresh"
    for path in (stale, fresh):
        path.write_text("half")
    os.utime(stale, (0, time.time() - 2 * cache._STALE_SECONDS))
    Cache(tmp_path, limit_bytes=10).prune()
    assert set(tmp_path.iterdir()) == {other, fresh}


def test_a_link_to_no_directory_is_told(tmp_path):
    (tmp_path / "kept").symlink_to(tmp_path / "gone")
    kept = Cache(tmp_path / "kept")
    with pytest.warns(UserWarning, match=r"kept is a link to a directory that doesn't exist: make it"):
        assert kept.get_or_make("x", ["k"], lambda: b"made") == b"made"
    with pytest.raises(WeftError, match="is a link to a directory that doesn't exist"):
        kept.check()


def test_a_tilde_that_the_shell_has_left_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WEFT_CACHE_DIR", "~/kept")
    assert cache.default().directory == tmp_path / "kept"


def test_the_environment_sets_the_folder_or_disables_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    assert cache.default().directory == tmp_path
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.default().directory == tmp_path / "home" / "weft"
    monkeypatch.setenv("WEFT_CACHE", "0")
    make = Maker()
    for _ in range(2):
        assert cache.default().get_or_make("k", [], make) == b"made"
    assert make.calls == 2
