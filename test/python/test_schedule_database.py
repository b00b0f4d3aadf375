"""Files of tuned schedules: entries, writers and errors."""

import json
import multiprocessing
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.bench.compiling import written
from weft.dialects.schedule import FAMILIES, Types, WarpgroupSchedule, read_schedule
from weft.dialects.schedule.coercion import as_schedule
from weft.errors import WeftError
from weft.multiply import product_kernel
from weft.schedules import choice, database, tuned_files, wgmma
from weft.schedules.database import Entry, Product
from weft.schedules.h200 import H200

BF16 = Types("bf16", "bf16", "bf16")
PRODUCT = Product(64, 512, 1024, BF16, "sm_90a")
ODD = WarpgroupSchedule((64, 48, 64), 1, 3)  # one that the model wouldn't choose
OTHER = replace(ODD, stages=4)


def entry(product: Product = PRODUCT, schedule: WarpgroupSchedule = ODD, microseconds: float = 5.0) -> Entry:
    return Entry(product, written(schedule), microseconds, {"gpu": "a GPU"})


def file(path: Path, *entries: Entry) -> Path:
    path.write_text("".join(f"{each.line()}\n" for each in entries))
    return path


def found(m: int, *asked: Path) -> object:
    return database.tuned(replace(PRODUCT, m=m), asked)


@pytest.mark.parametrize(
    "types", [BF16, Types("i8", "i8", "i32"), Types("f16", "f16", "f32", (False, True))], ids=str
)
def test_a_line_contains_all_of_an_entry(types):
    given = entry(replace(PRODUCT, types=types))
    read = Entry.read(given.line())
    assert read == given
    assert read_schedule(read.schedule) == ODD


def test_within_a_class_of_m_the_tiles_are_as_many():
    classes = {1: 8, 8: 8, 9: 16, 17: 32, 33: 64, 64: 64, 65: 128, 128: 128, 4000: 4032, 4096: 4096}
    assert {m: database.rows_class(m) for m in classes} == classes
    for m in range(1, 500):
        for rows in (64, 128, 192, 256):
            assert -(-m // rows) == -(-database.rows_class(m) // rows)


def test_the_entry_of_the_nearest_m_of_the_class_is_taken(tmp_path):
    entries = (entry(replace(PRODUCT, m=m), replace(ODD, group=min(m, 1024))) for m in (1, 40, 56, 65, 4096))
    kept = file(tmp_path / "kept", *entries)
    groups = {m: found(m, kept).group for m in (1, 2, 8, 33, 40, 41, 57, 64, 66, 128, 4033)}
    assert groups == {1: 1, 2: 1, 8: 1, 33: 40, 40: 40, 41: 56, 57: 56, 64: 56, 66: 65, 128: 65, 4033: 1024}
    assert [found(m, kept) for m in (9, 32, 129, 4032, 4097)] == [None] * 5


def test_n_k_types_and_chip_are_those_of_the_entry(tmp_path):
    kept = file(tmp_path / "kept", entry())
    others = [{"n": 513}, {"k": 512}, {"types": replace(BF16, d="f32")}, {"chip": "sm_100a"}]
    others.append({"types": replace(BF16, transposed=(False, True))})
    assert database.tuned(PRODUCT, [kept]) == ODD
    assert [database.tuned(replace(PRODUCT, **change), [kept]) for change in others] == [None] * 5


def test_f16_takes_what_bf16_has_where_it_has_none_of_its_own(tmp_path):
    halves = replace(PRODUCT, types=Types("f16", "f16", "f16"))
    mixed = replace(PRODUCT, types=Types("f16", "f16", "f32"))
    kept = file(tmp_path / "kept", entry(), entry(replace(PRODUCT, types=replace(mixed.types, d="f8E5M2"))))
    assert database.tuned(halves, [kept]) == ODD
    assert database.tuned(mixed, [kept]) is None
    with pytest.warns(UserWarning) as caught:  # once, of a product that is its own twin
        eight = replace(PRODUCT, types=Types("f8E4M3FN", "f8E4M3FN", "f32"))
        assert database.tuned(eight, [file(tmp_path / "bad", entry(eight, replace(ODD, stages=99)))]) is None
    assert len(caught) == 1
    own = file(tmp_path / "own", entry(), entry(halves, OTHER))
    assert database.tuned(halves, [own]) == OTHER
    assert found(64, own) == ODD


def test_the_first_file_with_an_entry_counts(tmp_path):
    first, second = file(tmp_path / "first", entry()), file(tmp_path / "second", entry(schedule=OTHER))
    assert found(64, tmp_path / "none", first, second) == ODD
    assert found(64, second, first) == OTHER
    assert found(64, file(tmp_path / "empty"), second) == OTHER


# What is wrong in a file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{half", "an entry must be JSON: "),
        ("[" * 10**5, "an entry must not nest objects or arrays"),
        ('{"m": ' + "9" * 5000 + "}", "an entry must not have numbers of thousands of digits"),
        ('{"types": {"a": "f16", "a": "f16"}}', "an entry must have each key once; got 'a' twice"),
        ("[]", "an entry must be an object with chip, types, m, n, k"),
        ({"m": None}, "m must be an integer in 1.."),
        ({"m": True}, "m must be an integer in 1.."),
        ({"n": 0}, "n must be an integer in 1.."),
        ({"k": 2**31}, "k must be an integer in 1.."),
        ({"types": {"a": "bf16", "b": "bf16"}}, "an entry must be an object with"),
        ({"types": {"a": "bf16", "b": "bf16", "d": "bf17"}}, "element types must be of f16, "),
        ({"types": {"a": ["bf16"], "b": "bf16", "d": "bf16"}}, "a of types must be a str, got"),
        ({"types": vars(BF16) | {"transposed": 1}}, "transposed of types must be a tuple, got 1"),
        ({"types": {"a": {}, "b": "bf16", "d": "bf16"}}, "an entry must be an object with"),
        ({"chip": "sm_999"}, "chip must be a known chip, got 'sm_999'"),
        ({"chip": {}}, "an entry must be an object with"),
        ({"schedule": 3}, "schedule must be a text"),
        ({"microseconds": -1}, "microseconds must be a number above 0"),
        ({"model": {"schedule": "{}"}}, "model must have a schedule and microseconds"),
    ],
)
def test_a_line_that_is_no_entry_gives_a_warning_with_its_source_location(tmp_path, change, message):
    line = change if isinstance(change, str) else json.dumps(json.loads(entry().line()) | change)
    kept = tmp_path / "kept"
    kept.write_text(f"\n{line}\n{entry().line()}\n")
    with pytest.warns(UserWarning, match="kept:2: ignored: ") as caught:
        assert database.tuned(PRODUCT, [kept]) == ODD
    assert [message in str(each.message) for each in caught] == [True]


def test_an_entry_without_a_field_is_reported_with_its_name():
    fields = json.loads(entry().line())
    for name in ("chip", "types", "m", "n", "k", "schedule", "microseconds"):
        with pytest.raises(WeftError, match=f"must have '{name}'"):
            Entry.read(json.dumps({key: value for key, value in fields.items() if key != name}))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (written(replace(ODD, stages=40)), "shared memory must be at most 232448 bytes on sm_90a"),
        (written(replace(ODD, block=(96, 48, 64))), "divide block M 96"),
        ("{block = array<i64: 1, 2>}", "schedule must have one of 'warp_grid'"),
        ("", "schedule must not be empty"),
        ("{", "expected attribute name"),
        ("{block = array<i64: 64, 24, 64>, warpgroups = 1, stages = 3, speed = 9}", "schedule has no field"),
    ],
)
def test_a_schedule_that_a_product_cannot_have_costs_a_warning(tmp_path, schedule, message):
    bad = file(tmp_path / "bad", replace(entry(), schedule=schedule))
    good = file(tmp_path / "good", entry(schedule=OTHER))
    with pytest.warns(UserWarning, match="bad:1: ignored: ") as caught:
        assert database.tuned(PRODUCT, [bad, good]) == OTHER
    assert message in str(caught[0].message)


def test_a_schedule_that_cannot_be_read_has_no_file_but_a_place():
    with pytest.raises(WeftError, match=r"^<schedule>:1:12: error: expected '}'"):
        read_schedule("{block = 64x64x64, warpgroups = 1}")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("128x128", "warpgroups"),
        ("", "warpgroups"),
        ("{block = array<i64: 64, 64, 64>}", "warpgroups"),
        *[(f"{{{family.key} = 2, stage = 3}}", family.key) for family in FAMILIES],
    ],
)
def test_text_that_is_no_schedule_is_refused_with_one_that_is(text, key):
    """It is one of the family that the text names, if it names one."""
    with pytest.raises(WeftError) as caught:
        as_schedule(text)
    what, note = str(caught.value).rsplit("\nnote: a schedule is written like ", 1)
    assert caught.value.diagnostics[0].severity == "error" and what
    assert as_schedule(note) == read_schedule(note)
    assert as_schedule(note).key == key


def test_a_file_that_cannot_be_read_costs_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="ignored: it can't be read: Is a directory"):
        assert database.tuned(PRODUCT, [tmp_path]) is None


# Writers


def test_entries_are_kept_in_order_and_replaced(tmp_path):
    kept = tmp_path / "new" / "kept"
    for m in (4096, 1, 64):
        database.keep(kept, entry(replace(PRODUCT, m=m)))
    database.keep(kept, entry(schedule=OTHER, microseconds=4.0))
    assert [json.loads(line)["m"] for line in kept.read_text().splitlines()] == [1, 64, 4096]
    assert found(64, kept) == OTHER
    assert found(1, kept) == ODD
    assert [path.name for path in kept.parent.iterdir()] == ["kept"]


def test_a_faster_entry_of_another_process_stays(tmp_path):
    kept = file(tmp_path / "kept", entry(microseconds=3.0))
    database.keep(kept, entry(schedule=OTHER, microseconds=4.0))
    assert found(64, kept) == ODD
    database.keep(kept, entry(schedule=OTHER, microseconds=4.0), measured=[written(ODD)])
    assert found(64, kept) == OTHER


def test_lines_that_say_nothing_here_stay(tmp_path):
    kept = tmp_path / "kept"
    newer = b'{"types": {"a": "f4"}} \xff\n'
    kept.write_bytes(newer)
    with pytest.warns(UserWarning, match="kept:1"):
        database.keep(kept, entry())
    assert kept.read_bytes() == entry().line().encode() + b"\n" + newer


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "kept", tmp_path):
        with pytest.raises(WeftError, match="cannot write"):
            database.keep(path, entry())


def write(path: Path, n: int, count: int) -> None:
    """Keeps entries of a layer of its own, as one of several processes."""
    for m in range(1, count + 1):
        database.keep(path, entry(replace(PRODUCT, m=m, n=n)))


@pytest.mark.slow
def test_writers_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    kept, count = tmp_path / "kept", 40
    started = [context.Process(target=write, args=(kept, n, count)) for n in (8, 16, 24)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 3
    wanted = {replace(PRODUCT, m=m, n=n) for m in range(1, count + 1) for n in (8, 16, 24)}
    assert set(database.read(kept)) == wanted


# Who asks


def test_a_tuned_schedule_comes_before_the_model(tmp_path, monkeypatch):
    own = wgmma.choose(64, 512, 1024, BF16, H200)
    assert own != ODD
    monkeypatch.setenv(tuned_files.VARIABLE, str(file(tmp_path / "kept", entry())))
    assert choice.choose(64, 512, 1024, BF16, "sm_90a") == ODD
    assert choice.choose(65, 512, 1024, BF16, "sm_90a") == wgmma.choose(65, 512, 1024, BF16, H200)
    monkeypatch.setenv(tuned_files.VARIABLE, "")
    assert choice.choose(64, 512, 1024, BF16, "sm_90a") == own


def test_the_files_that_are_asked(tmp_path, monkeypatch):
    shipped = Path(database.__file__).with_name("sm_90a.jsonl")
    monkeypatch.setenv(tuned_files.VARIABLE, str(tmp_path))
    assert tuned_files.sources("sm_90a") == (tmp_path, shipped)
    monkeypatch.setenv(tuned_files.VARIABLE, "")
    assert tuned_files.sources("sm_90a") == ()
    monkeypatch.delenv(tuned_files.VARIABLE)
    own, then = tuned_files.sources("sm_90a")
    assert own.name == "schedules.jsonl" and "weft" in own.parts and then == shipped


def test_shipped_schedules_are_legal_and_of_the_chip_of_their_file():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in Path(database.__file__).parent.glob("*.jsonl"):
            for product, each in database.read(path).items():
                assert product.chip == path.stem
                database.checked(each, product)


def test_weft_matmul_takes_the_tuned_schedule(tmp_path, monkeypatch):
    product = Product(16, 32, 64, Types("f16", "f16", "f16", (False, True)), "sm_90a")
    monkeypatch.setenv(tuned_files.VARIABLE, str(file(tmp_path / "kept", entry(product))))
    asked = []
    compiled = product_kernel.compiled
    monkeypatch.setattr(product_kernel, "compiled", lambda *given: asked.append(given) or compiled(*given))
    a, b = np.ones((16, 64), np.float16), np.ones((64, 32), np.float16)
    assert (weft.matmul(a, b) == 64).all()
    assert [ODD in given for given in asked] == [True]
