"""The handler that XLA calls, with a call frame that this test builds."""

import ctypes

import pytest
from cuda.bindings import driver as cuda
from fake_driver import two_gpus

from weft.errors import WeftError
from weft.launch import host_code, launcher, runtime
from weft.launch.launcher import Parameter
from weft.multiply import jax_call

U64, VOID = ctypes.c_uint64, ctypes.c_void_p
STREAM_GET, ERROR_CREATE = 80, 48  # bytes of XLA_FFI_Api


class Frame:
    """An XLA_FFI_CallFrame, and what its pointers lead to."""

    def __init__(self, inputs, result, attributes, *, stage=3, stream=5, stream_error=0):
        self.kept, self.messages, self.stream, self.stream_error = [], [], stream, stream_error
        api = (ctypes.c_char * 200)()
        for offset, function in ((STREAM_GET, self._stream), (ERROR_CREATE, self._error)):
            made = ctypes.CFUNCTYPE(VOID, VOID)(function)
            self.kept.append(made)
            U64.from_buffer(api, offset).value = ctypes.cast(made, VOID).value
        words = [0] * 22
        words[2], words[3], words[4] = ctypes.addressof(api), 0xC0, stage
        words[7], words[9] = len(inputs), self._pointers([self._buffer(a) for a in inputs])
        words[12], words[14] = 1, self._pointers([self._buffer(result)])
        words[17], words[20] = len(attributes), self._pointers([self._scalar(v) for v in attributes])
        self.kept.append(api)
        self.words = (U64 * len(words))(*words)
        self.address = ctypes.addressof(self.words)

    def _keep(self, made):
        self.kept.append(made)
        return ctypes.addressof(made)

    def _pointers(self, addresses):
        return self._keep((U64 * max(1, len(addresses)))(*addresses))

    def _buffer(self, address):
        return self._keep((U64 * 6)(48, 0, 16, address, 0, 0))

    def _scalar(self, value):
        return self._keep((U64 * 2)(5, self._keep(ctypes.c_int64(value))))

    def _stream(self, arguments):
        _, _, context, _ = (U64 * 4).from_address(arguments)
        assert context == 0xC0
        U64.from_address(arguments + 24).value = self.stream
        return self.stream_error

    def _error(self, arguments):
        text = VOID.from_address(arguments + 16).value
        self.messages.append(
            (ctypes.string_at(text).decode(), ctypes.c_int.from_address(arguments + 24).value)
        )
        return 0xE0


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        fake.stack = [100]
        yield fake


def handle(frame):
    address = host_code.address("multiply/jax_launch.ll", "weft_jax_launch", uses=("launch/launcher.ll",))
    return ctypes.CFUNCTYPE(VOID, VOID)(address)(frame.address)


SETTLE = ctypes.cast(jax_call._SETTLE, VOID).value


def plan(driver, workspaces=0):
    parameters = [Parameter(bytes(8), n) for n in range(4 + workspaces)]
    driver.sizes = [8] * len(parameters)
    return launcher.Plan(100, 200, cuda.CUlaunchConfig(), parameters, 4, workspaces)


def addresses(driver):
    return [int.from_bytes(each, "little") for each in driver.given[-1]]


def test_a_launch_is_queued_on_xlas_stream_with_the_result_third(driver):
    made = plan(driver)
    frame = Frame([16, 32, 64], 48, [made.address, SETTLE], stream=9)
    assert handle(frame) is None and driver.launched == [(0, 9)]
    assert addresses(driver) == [16, 32, 48, 64]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_stages_before_the_execution_do_nothing(driver, stage):
    assert handle(Frame([16, 32, 64], 48, [plan(driver).address, SETTLE], stage=stage)) is None
    assert not driver.launched


def test_the_version_and_no_traits_are_told(driver):
    frame = Frame([], 16, [0, SETTLE])
    metadata = (ctypes.c_int32 * 12)(*[-1] * 12)
    extension = (U64 * 4)(32, 1, 0, ctypes.addressof(metadata))
    frame.words[1] = ctypes.addressof(extension)
    assert handle(frame) is None and not driver.launched
    assert metadata[6:9] == [0, 1, 0]  # major, minor, traits


@pytest.mark.parametrize("inputs", [(8, 32, 64), (16, 32, 65)])
def test_a_call_without_a_plan_is_refused(driver, inputs):
    frame = Frame(inputs, 48, [plan(driver).address, SETTLE])
    assert handle(frame) == 0xE0 and not driver.launched
    assert frame.messages == [("weft.matmul: expected arrays of JAX that begin at multiples of 16 bytes", 13)]


def test_an_error_of_xla_is_handed_on(driver):
    frame = Frame([16, 32, 64], 48, [plan(driver).address, SETTLE], stream_error=0xF0)
    assert handle(frame) == 0xF0 and not driver.launched


class Launch:
    """Stands for a `runtime.Prepared`."""

    def __init__(self, made, error=None):
        self.made, self.error, self.asked = made, error, []

    def provide(self, status, stream):
        self.asked.append((status, stream))
        if self.error:
            raise self.error
        self.made.add_workspaces((stream, 0), [4096])


def test_a_stream_without_a_workspace_gets_one(driver):
    made = plan(driver, workspaces=1)
    launch = jax_call._launches[made.address] = Launch(made)
    for _ in range(2):
        assert handle(Frame([16, 32, 64], 48, [made.address, SETTLE], stream=7)) is None
    assert launch.asked == [(launcher.NO_WORKSPACE, 7)] and len(driver.launched) == 2
    assert addresses(driver) == [16, 32, 48, 64, 4096]


def test_an_error_of_the_driver_is_told_by_xla(driver):
    made = launcher.Plan(100, 201, cuda.CUlaunchConfig(), [Parameter(bytes(8), 0)], 1)
    launch = jax_call._launches[made.address] = Launch(made, WeftError("launching f: no"))
    frame = Frame([16, 32], 48, [made.address, SETTLE])
    assert handle(frame) == 0xE0 and frame.messages == [("launching f: no", 13)]
    assert launch.asked == [(int(cuda.CUresult.CUDA_ERROR_INVALID_HANDLE), 5)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_launch_that_is_gone_is_not_tried_for_ever(driver):
    made = launcher.Plan(100, 201, cuda.CUlaunchConfig(), [Parameter(bytes(8), 0)], 1)
    frame = Frame([16, 32], 48, [made.address, SETTLE])
    assert handle(frame) == 0xE0
    ((message, code),) = frame.messages
    assert "the launch failed" in message and code == 13


def test_a_prepared_launch_provides_workspaces_and_reports_errors(driver):
    loaded = runtime.load(b"", 0)
    prepared = loaded.prepare("f", (1, 1, 1), (32, 1, 1), [])
    prepared.launch(3)
    with pytest.raises(WeftError, match=r"launching f .*CUDA_ERROR_INVALID_HANDLE"):
        prepared.provide(int(cuda.CUresult.CUDA_ERROR_INVALID_HANDLE), 3)
