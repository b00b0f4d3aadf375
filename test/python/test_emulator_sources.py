"""The emulator's code is a part of the keys under which the cache keeps what it makes."""

from weft.cache import disk_cache, loaded
from weft.emulator import native
from weft.emulator.compiled import boxes, plain_code

TEXT = "define i64 @f() {{ ret i64 {} }}"


def texts_asked(count, monkeypatch, directory):
    """How often a library's text is asked for, in this number of loads."""
    cache, asked = disk_cache.Cache(directory), []
    monkeypatch.setattr(disk_cache, "default", lambda: cache)
    for _ in range(count):
        native.Library("a library", lambda: asked.append(1) or TEXT.format(7), ["f"]).addresses()
    return len(asked)


def test_a_cached_library_needs_no_text(monkeypatch, tmp_path):
    assert texts_asked(3, monkeypatch, tmp_path) == 1


def test_libraries_are_made_again_by_other_code(monkeypatch, tmp_path):
    assert texts_asked(1, monkeypatch, tmp_path) == 1
    monkeypatch.setattr(native._files, "_digest", b"another version")
    assert texts_asked(2, monkeypatch, tmp_path) == 1


def test_changed_files_and_replaced_functions_are_known_by_their_text(monkeypatch, tmp_path):
    assert native.identity() is not None
    with monkeypatch.context() as patch:
        patch.setattr(native._files, "digest", lambda: None)
        assert native.identity() is None
    with monkeypatch.context() as patch:
        patch.setattr(boxes, "_copied", lambda *records: 0)
        assert native.identity() is None
        assert texts_asked(3, monkeypatch, tmp_path) == 3
        assert [path.name[:5] for path in tmp_path.iterdir()] == ["host-"]
    monkeypatch.setattr(plain_code._Body, "write", lambda self: None)
    assert native.identity() is None


def test_tables_that_changed_before_the_emulator_was_loaded_are_noticed(tmp_path):
    """The emulator records its files when it is loaded, the tables among them have been loaded before."""
    shared = loaded._own_files.states.keys() & native._files.states.keys()
    assert any(name.endswith("isa/chips.py") for name in shared)
    path = tmp_path / "x.py"
    path.write_text("one")
    before = loaded.Files([str(path)])
    path.write_text("another one")
    assert loaded.Files([str(path)]).digest() is None and before.digest() is None
    loaded._recorded.pop(str(path))
