"""Sequences of launches, copies and events, queued by host code on a fake driver."""

import threading
import time

import pytest
from cuda.bindings import driver as cuda
from fake_driver import HOSTS, two_gpus

from weft.errors import WeftError
from weft.launch import host, launcher
from weft.launch.launcher import Parameter
from weft.launch.sequence import CALLER, OTHER, Copy, Counter, Launch, Number, Record, Sequence, Wait, Where

PUSHES = 70  # the other stream of GPU 0, as the fake driver makes it
ENDED, OF_CALLER, OF_OTHER = 88, 89, 90  # events


@pytest.fixture(params=HOSTS, ids=lambda functions: functions.__name__)
def driver(patch, request):
    patch.setattr(host, "functions", request.param)
    with two_gpus(patch) as fake:
        fake.stack = [100]
        yield fake


class Prepared:
    """Stands for a `runtime.Prepared`: a launch of so many addresses."""

    def __init__(self, driver, count, *, gpu=0, workspaces=False):
        parameters = [Parameter(bytes(8), number) for number in range(count)]
        driver.sizes = [8] * count
        self.made = launcher.Plan(100 + gpu, 200 + gpu, cuda.CUlaunchConfig(), parameters, count)
        self.plan_address, self.has_workspaces = self.made.address, workspaces


def at(begin):
    return Where(None, begin)


def numbers(given):
    return [int.from_bytes(each, "little") for each in given]


def test_addresses_are_those_of_the_call_or_fixed(driver):
    where = Where(1, 0), at(4096), Where(0, 32)
    Sequence("a call", 0, [[Launch(Prepared(driver, 3), where)]]).launch(9, 1 << 20, 1 << 40)
    assert driver.launched == [(0, 9)] and numbers(driver.given[0]) == [1 << 40, 4096, (1 << 20) + 32]


def test_steps_are_queued_in_order_on_their_streams(driver):
    steps = [
        Number(at(64)),
        Record(CALLER),
        Wait(OTHER, CALLER),
        Copy(OTHER, at(1000), Where(0, 8), 24),
        Record(OTHER),
        Copy(CALLER, Where(1, 0), at(2000), 16),
        Wait(CALLER, OTHER),
    ]
    Sequence("a call", 0, [steps], Counter()).launch(9, 500, 600)
    assert driver.queued == [
        ("set", 64, 1, 9),
        ("record", 9),
        ("wait", PUSHES),
        ("copy", 1000, 508, 24, PUSHES),
        ("record", PUSHES),
        ("copy", 600, 2000, 16, 9),
        ("wait", 9),
        ("record", 9),
    ]
    each = [OF_CALLER, OF_CALLER, OF_OTHER, OF_OTHER, ENDED]
    assert [event for event, _ in driver.events] == each


def test_a_counter_numbers_calls_of_several_sequences_and_selects_their_steps(driver):
    counter = Counter()
    one, other = (
        Sequence("a call", 0, [[Number(at(base)), Copy(CALLER, at(base), at(n), 4)] for n in (0, 1)], counter)
        for base in (64, 128)
    )
    for each in (one, other, one, one):
        each.launch(9)
    found = [each[1:4] for each in driver.queued if each[0] != "record"]
    assert found[::2] == [(64, 1, 9), (128, 2, 9), (64, 3, 9), (64, 4, 9)]
    assert [source for _, source, _ in found[1::2]] == [1, 0, 1, 0] and counter.calls == 4


def test_sequences_follow_each_other_on_all_streams(driver):
    made = Sequence("a call", 0, [[Copy(CALLER, at(1), at(2), 4)]])
    for stream in (9, 9, 8):
        made.launch(stream)
    kinds = [(what, *rest[-1:]) for what, *rest in driver.queued]
    assert kinds == [
        *[("copy", 9), ("record", 9)] * 2,
        *[("wait", 8), ("copy", 8), ("record", 8)],
    ]
    assert {event for event, _ in driver.events} == {ENDED}


def test_a_sequence_runs_in_the_context_of_its_gpu(driver):
    Sequence("a call", 1, [[Launch(Prepared(driver, 1, gpu=1), (at(1),))]]).launch(9)
    assert driver.launched == [(1, 9)] and driver.stack == [100]


def test_an_error_of_a_step_ends_the_sequence_and_is_told(driver):
    failing = Prepared(driver, 1)
    failing.made._plan[1] = 201  # of another context
    made = Sequence("multiplying", 0, [[Launch(failing, (at(1),)), Copy(CALLER, at(1), at(2), 4)]])
    for _ in range(2):  # the lane is free again
        with pytest.raises(WeftError, match=r"multiplying: CUDA_ERROR_INVALID_HANDLE"):
            made.launch(9)
    assert not driver.queued


def test_kernels_with_workspaces_are_refused(driver):
    with pytest.raises(WeftError, match="multiplying: schedule must be one whose kernel has no workspaces"):
        Sequence("multiplying", 0, [[Launch(Prepared(driver, 1, workspaces=True), (at(1),))]])


def test_threads_queue_whole_sequences(driver):
    copy = driver._copy

    def slow(*given):
        time.sleep(0)  # lets other threads run
        return copy(*given)

    driver._copy, counter = slow, Counter()
    made = Sequence("a call", 0, [[Number(at(64)), Copy(CALLER, at(1), at(2), 4)]], counter)
    threads = [threading.Thread(target=lambda: [made.launch(9) for _ in range(50)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    kinds = [what for what, *_ in driver.queued]
    assert kinds == ["set", "copy", "record"] * 200
    assert [each[2] for each in driver.queued if each[0] == "set"] == list(range(1, 201))
