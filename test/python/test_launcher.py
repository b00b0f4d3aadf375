"""The host code that queues launches, with this process's functions instead of the driver's."""

import ctypes
import threading

import pytest
from cuda.bindings import driver as cuda
from fake_driver import HOSTS, two_gpus

from weft.launch import host, workspace
from weft.launch.launcher import MISCOUNTED, NO_WORKSPACE, OVERLAP, Extents, Parameter, Plan

FUNCTION = 200  # a kernel of GPU 0, as the fake driver numbers them
MAP = bytes(range(128))


@pytest.fixture(params=HOSTS, ids=lambda functions: functions.__name__)
def driver(patch, request):
    patch.setattr(host, "functions", request.param)
    with two_gpus(patch) as fake:
        fake.stack = [100]
        yield fake


def plan(driver, parameters, given, workspaces=0, extents=None, context=100):
    driver.sizes = [len(parameter.data) for parameter in parameters]
    config = cuda.CUlaunchConfig()
    config.gridDimX = 3
    return Plan(context, FUNCTION + context - 100, config, parameters, given, workspaces, extents)


def word(value):
    return value.to_bytes(8, "little")


def test_addresses_are_written_to_their_parameters_only(driver):
    parameters = [
        Parameter(bytes(8), 1),
        Parameter(b"abcd"),
        Parameter(MAP, 0),
        Parameter(word(7)),
        Parameter(bytes(8), 1),
    ]
    made = plan(driver, parameters, 2)
    for addresses in ((0x1000, 0x2000), (2**63 + 16, 2**40)):
        assert made.queue(5, *addresses) == 0
        first, second = map(word, addresses)
        assert driver.given[-1] == [second, b"abcd", first + MAP[8:], word(7), second]
    assert driver.launched == [(0, 5), (0, 5)]


def test_parameters_begin_at_multiples_of_64_bytes(driver, monkeypatch):
    starts = []

    def launch(self, config, function, parameters, extra):
        starts.extend((ctypes.c_uint64 * 4).from_address(parameters))
        return 0

    monkeypatch.setattr(type(driver), "_launch", launch)
    plan(driver, [Parameter(b"a" * n) for n in (4, 128, 1, 8)], 0).queue(0)
    assert len(starts) == 4 and all(at % 64 == 0 for at in starts)


def test_a_kernel_without_parameters_is_launched(driver):
    assert plan(driver, [], 0).queue(9) == 0 and driver.launched == [(0, 9)]


def test_a_wrong_number_of_addresses_is_no_launch(driver):
    made = plan(driver, [Parameter(bytes(8), 0)], 1)
    assert [made.queue(0), made.queue(0, 1, 2)] == [MISCOUNTED] * 2 and not driver.launched
    with pytest.raises(OverflowError):
        made.queue(0, -1)
    with pytest.raises(TypeError):
        made.queue(0, "1")


def test_a_launch_enters_the_context_of_its_gpu(driver):
    made = plan(driver, [], 0, context=101)
    assert made.queue(2) == 0
    assert driver.launched == [(1, 2)] and driver.stack == [100]
    driver.stack = []
    assert made.queue(2) == 0 and driver.stack == []


def test_an_error_of_the_driver_is_the_status(driver):
    config = cuda.CUlaunchConfig()
    other = Plan(100, FUNCTION + 1, config, [], 0)  # a kernel of another GPU
    assert other.queue(0) == int(cuda.CUresult.CUDA_ERROR_INVALID_HANDLE)


def test_each_stream_and_graph_has_its_own_workspaces(driver):
    made = plan(driver, [Parameter(bytes(8), 2), Parameter(bytes(8), 0), Parameter(bytes(8), 1)], 1, 2)
    driver.captured = {6: 77}
    for number in range(20):  # more than a table has room for at first
        stream, key = (6, (6, 77)) if number == 13 else (100 + number, (100 + number, 0))
        assert made.queue(stream, 1) == NO_WORKSPACE
        made.add_workspaces(key, [number, 1000 + number])
        made.add_workspaces(key, [0, 0])  # too late
        assert made.queue(stream, 1) == 0
        assert driver.given[-1] == [word(1000 + number), word(1), word(number)]
    assert made.queue(100, 1) == 0 and driver.given[-1] == [word(1000), word(1), word(0)]


def test_streams_that_one_graph_captures_share_no_workspace(driver):
    """The graph runs what they launch at the same time, unless one has waited for the other."""
    made = plan(driver, [Parameter(bytes(8), 0)], 0, 1)
    driver.captured = {6: 77, 8: 77}
    for stream in driver.captured:
        assert made.queue(stream) == NO_WORKSPACE
        made.add_workspaces(workspace.stream_key(stream), [stream << 20])
        assert made.queue(stream) == 0
    assert driver.given == [[word(6 << 20)], [word(8 << 20)]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("addresses", "apart"),
    [
        ((0, 100, 300), True),
        ((250, 100, 300), True),  # ends where the written one begins
        ((251, 100, 300), False),
        ((399, 100, 300), False),
        ((400, 100, 300), True),
        ((0, 300, 300), True),  # the second may be the written one,
        ((0, 301, 300), False),  # but not lie across it
        ((300, 0, 300), False),  # the first may not
    ],
)
def test_what_is_written_is_apart_from_what_is_read(driver, addresses, apart):
    extents = Extents((50, 100, 100), (False, True, True), 2)
    made = plan(driver, [Parameter(bytes(8), n) for n in range(3)], 3, extents=extents)
    assert made.queue_apart(0, *addresses) == (0 if apart else OVERLAP)
    assert extents.overlap(addresses) is not apart
    assert len(driver.launched) == apart
    assert made.queue(0, *addresses) == 0  # which doesn't look


def test_threads_queue_one_plan_at_the_same_time(driver):
    made = plan(driver, [Parameter(MAP, 0), Parameter(bytes(8), 1), Parameter(bytes(8), 2)], 2, 1)
    made.add_workspaces((0, 0), [5])
    count, each = 8, 200

    def work(number):
        for turn in range(each):
            address = number << 32 | turn
            assert made.queue(0, address, address + 1) == 0

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(int.from_bytes(first[:8], "little") for first, *_ in driver.given)
    assert found == [n << 32 | turn for n in range(count) for turn in range(each)]
    for first, second, third in driver.given:
        assert int.from_bytes(second, "little") == int.from_bytes(first[:8], "little") + 1
        assert third == word(5)
