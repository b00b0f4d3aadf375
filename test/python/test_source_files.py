"""Changes of Weft's files are noticed by the files' states, without reading them."""

import os
import time

from weft.cache import loaded, source_files


def test_times_that_are_set_back_hide_nothing(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("one")
    files = loaded.Files(os.scandir(tmp_path))
    assert files.changed() is None
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.changed() == str(path)
    path.unlink()
    assert files.changed() == str(path)


def aged(path, seconds):
    """What `os.stat` would return for a file that was written long ago, at such a part of a second."""
    state = source_files._state(str(path))
    return state._replace(changed=time.time_ns() // 10**9 * 10**9 - int(seconds * 1e9))


def test_contents_of_files_in_a_known_state_are_not_read(tmp_path, patch):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    path = tmp_path / "x.py"
    path.write_text("one")
    state = aged(path, 3.25)
    patch.setattr(source_files, "_state", lambda name: state)
    read, content_of = [], source_files._content_of
    patch.setattr(source_files, "_content_of", lambda path: read.append(path) or content_of(path))

    def digest():
        patch.setattr(source_files, "_first", {})  # as in another process
        return loaded.Files([each for each in os.scandir(tmp_path) if each.name == "x.py"]).digest()

    first = digest()
    assert digest() == first and len(read) == 1
    path.write_text("two")
    for unsure in (aged(path, 0.25), aged(path, 3)):  # written just now, or in whole seconds
        state = unsure
        assert digest() == digest() != first
    assert len(read) == 5
    state = aged(path, 3.5)
    (tmp_path / "cache").chmod(0o500)
    assert digest() != first
    assert len([*(tmp_path / "cache").glob("sources-*")]) == (1 if os.geteuid() else 2)  # root can write


def test_hard_links_change_nothing(tmp_path, patch):
    path, link = tmp_path / "x.py", tmp_path / "other environment"
    path.write_text("one")
    files = loaded.Files(os.scandir(tmp_path))
    described = files.described()
    for change in (lambda: link.hardlink_to(path), link.unlink):
        change()
        assert files.changed() is None
        patch.setattr(source_files, "_first", {})  # as in another process
        again = loaded.Files([entry for entry in os.scandir(tmp_path) if entry.name == "x.py"])
        assert again.described() == files.described() == described
    path.write_text("two")
    link.hardlink_to(path)
    assert files.changed() == str(path)
