"""Products over several GPUs in XLA's handler, on a fake driver of two GPUs."""

import ctypes

import pytest
from distributed_worlds import SMALL
from fake_driver import MEMORY, two_gpus
from test_xla_target import Frame, handle

from weft.distributed import gather, peers, xla_call
from weft.distributed.xla_call import TeamCall
from weft.errors import WeftError
from weft.multiply import xla_target
from weft.multiply.product import Product

A, B = ((128, 64), "bf16"), ((32, 64), "bf16")
RESULT = 3 << 20


@pytest.fixture
def driver(patch, monkeypatch):
    caches = peers.obstacle, peers._enable, xla_target._parsed
    for each in caches:
        each.cache_clear()
    xla_target.add_reader(xla_target.OF_TEAMS, TeamCall.of)
    with two_gpus(patch) as fake:
        for name in ("_teams", "_sequences"):
            monkeypatch.setattr(xla_call, name, {})
        made = xla_target._Table()
        monkeypatch.setattr(xla_target, "TABLE", made)
        xla_target.connect(made)
        fake.stack = [100]
        yield fake
        monkeypatch.undo()
        xla_target.connect(xla_target.TABLE)
        for each in caches:
            each.cache_clear()


def call(name="all_gather_matmul", operands=(A, B), teams=((0, 1),), **given):
    options = {"roles": (), "transpose_b": True, "schedule": SMALL}
    return TeamCall(name, operands, Product(**(options | given)).checked(), teams)


def frame(text, gpu, stage=3, stream=9):
    made = Frame([1 << 20, 2 << 20], RESULT, text, stage=stage, stream=stream, gpu=gpu)
    made.words[17] = 3  # attributes: `results` is the last
    return made


def queue(driver, text, gpu, **given):
    driver.stack[:] = [100 + gpu]
    return handle(frame(text, gpu, **given), "xla_team")


def test_a_team_is_prepared_whole_before_it_runs(driver):
    text = call().text
    assert queue(driver, text, 1, stage=2) is None and not driver.launched
    assert driver.access == [(0, 1), (1, 0)]
    allocated = driver.allocated
    for gpu in (0, 1):
        assert queue(driver, text, gpu, stage=2) is None
        assert queue(driver, text, gpu) is None
    assert driver.allocated == allocated
    assert driver.launched == [(0, 9)] * 2 + [(1, 9)] * 2  # rows are pushed, and multiplied


def test_rows_are_copied_to_the_half_of_the_call(driver, monkeypatch):
    monkeypatch.setattr(gather, "_MOST_PUSHED", 0)
    text = call().text
    for _ in range(3):
        assert queue(driver, text, 0) is None
    copies = [each for each in driver.queued if each[0] == "copy"]
    rows, flags = copies[::2], copies[1::2]
    assert [each[2:] for each in rows] == [(1 << 20, 128 * 64 * 2, 70)] * 3
    assert rows[0][1] == rows[2][1] != rows[1][1] and flags[0][1] == flags[2][1] != flags[1][1]
    assert all(each[1] // MEMORY == 2 for each in copies)  # GPU 1's memory
    states = [each for each in driver.queued if each[0] == "set"]
    assert [value for _, _, value, _ in states] == [1, 2, 3]
    assert {source for _, _, source, *_ in flags} == {address for _, address, *_ in states}


def test_the_result_is_an_operand_of_the_kernel(driver):
    text = call("matmul_reduce_scatter", out_dtype="bf16").text
    assert queue(driver, text, 0) is None and driver.launched == [(0, 9)]
    (made,) = xla_call._sequences.values()
    *_, ((launch,),) = made[0]._kept
    assert [each.number for each in launch.operands[:4]] == [0, 1, 2, None]


def test_two_teams_have_memory_of_their_own(driver):
    one, other = (
        call("matmul_all_reduce", teams=(team,), out_dtype="bf16").text for team in ((0, 1), (1, 0))
    )
    for text in (one, other):
        assert queue(driver, text, 0) is None
    assert len(xla_call._teams) == 2 and len(driver.launched) == 2


def test_xla_must_not_capture_calls(driver):
    metadata = (ctypes.c_int32 * 12)(*[-1] * 12)
    extension = (ctypes.c_uint64 * 4)(32, 1, 0, ctypes.addressof(metadata))
    asked = Frame([], 16)
    asked.words[1] = ctypes.addressof(extension)
    assert handle(asked, "xla_team") is None and metadata[6:9] == [0, 1, 0]


def test_gpus_that_cannot_access_each_other_are_named(driver):
    driver.apart = {(0, 1)}
    made = frame(call().text, 0, stage=2)
    assert handle(made, "xla_team") == 0xE0
    ((message, _),) = made.messages
    assert "products over several GPUs: GPU 0 can't access the memory of GPU 1" in message


def test_gpus_of_different_chips_are_no_team(driver):
    driver.majors = [9, 8]
    assert peers.obstacle((0, 1)) == "all GPUs must be of one chip, got sm_80, sm_90a"


def test_a_failure_leaves_no_team(driver, monkeypatch):
    def fail(*_):
        raise WeftError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(TeamCall, "planned", fail)
        made = frame(call().text, 0, stage=2)
        assert handle(made, "xla_team") == 0xE0 and "no memory" in made.messages[0][0]
    assert not xla_call._teams
    assert queue(driver, call().text, 0, stage=2) is None


def test_a_call_is_read_as_it_was_written():
    made = call(roles=("bias",), operands=(A, B, ((32,), "f32")), activation="relu", schedule=SMALL)
    assert TeamCall.of(made.text) == made
    with pytest.raises(WeftError, match="of format 2, got all_gather_matmul of format 3: trace the program"):
        TeamCall.of(made.text.replace('"version":2', '"version":3'))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"operands": (((128, 60), "bf16"), ((32, 60), "bf16"))}, "rows of a must have a multiple of 8"),
        ({"operands": (((127, 64), "bf16"), B), "name": "matmul_reduce_scatter"}, "a multiple of 2, the"),
        ({"operands": (A, ((32, 64), "f16"))}, "a and b must have one element type"),
    ],
)
def test_operands_that_kernels_cannot_multiply_are_told(driver, change, message):
    found = xla_call.complaint(call(**change))
    assert found is None if message is None else message in found
