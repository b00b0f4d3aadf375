"""The handler that XLA calls, with a call frame that this test builds."""

import ctypes
import gc

import pytest
from cuda.bindings import driver as cuda
from fake_driver import HOSTS, two_gpus

from weft.errors import WeftError
from weft.launch import host, launcher, runtime
from weft.launch.launcher import Parameter
from weft.multiply import xla_target
from weft.multiply.product import Product
from weft.multiply.xla_product import Parsed, key_of, text_of

U64, VOID = ctypes.c_uint64, ctypes.c_void_p
STREAM_GET, ORDINAL_GET, ERROR_CREATE = 80, 184, 48  # bytes of XLA_FFI_Api


class Frame:
    """An XLA_FFI_CallFrame, and what its pointers lead to."""

    def __init__(self, inputs, result, text="", *, stage=3, stream=5, gpu=0, stream_error=0):
        self.kept, self.messages, self.stream, self.stream_error = [], [], stream, stream_error
        self.gpu, self.text = gpu, text.encode()
        api = (ctypes.c_char * 200)()
        functions = (STREAM_GET, self._stream), (ORDINAL_GET, self._ordinal), (ERROR_CREATE, self._error)
        for offset, function in functions:
            made = ctypes.CFUNCTYPE(VOID, VOID)(function)
            self.kept.append(made)
            U64.from_buffer(api, offset).value = ctypes.cast(made, VOID).value
        words = [0] * 22
        words[2], words[3], words[4] = ctypes.addressof(api), 0xC0, stage
        words[7], words[9] = len(inputs), self._pointers([self._buffer(a) for a in inputs])
        words[12], words[14] = 1, self._pointers([self._buffer(result)])
        words[17], words[20] = 2, self._pointers([self._scalar(key_of(text)), self._string(self.text)])
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

    def _string(self, text):
        held = ctypes.create_string_buffer(text)
        return self._keep((U64 * 2)(self._keep(held), len(text)))

    def _ordinal(self, arguments):
        ctypes.c_int32.from_address(arguments + 24).value = self.gpu
        return 0

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


@pytest.fixture(params=HOSTS, ids=lambda functions: functions.__name__)
def driver(patch, request):
    patch.setattr(host, "functions", request.param)
    with two_gpus(patch) as fake:
        fake.stack = [100]
        yield fake


@pytest.fixture(autouse=True)
def table(driver, monkeypatch):
    """Launches of earlier tests are of other drivers."""
    made = xla_target._Table()
    monkeypatch.setattr(xla_target, "TABLE", made)
    xla_target.connect(made)
    yield made
    monkeypatch.undo()
    xla_target.connect(xla_target.TABLE)


def handle(frame, name="xla_gpu"):
    return ctypes.CFUNCTYPE(VOID, VOID)(getattr(host.functions, name))(frame.address)


def plan(driver, workspaces=0, function=200):
    parameters = [Parameter(bytes(8), n) for n in range(4 + workspaces)]
    driver.sizes = [8] * len(parameters)
    return launcher.Plan(100, function, cuda.CUlaunchConfig(), parameters, 4, workspaces)


class Launch:
    """Stands for a `runtime.Prepared`."""

    def __init__(self, made, workspaces=False, error=None, own=None):
        self.made, self.plan_address, self.has_workspaces = made, made.address, workspaces
        self.error, self.asked, self.own, self.keys = error, [], own, []

    def provide(self, status, stream):
        self.asked.append((status, stream))
        if self.error:
            raise self.error
        self.made.add_workspaces((stream, 0), [4096])

    def with_workspaces(self, key):
        self.keys.append(key)
        return self.own


def known(table, text="", gpu=0, **given):
    launch = Launch(**given)
    table.add((key_of(text), gpu, 0), launch)
    return launch


def addresses(driver):
    return [int.from_bytes(each, "little") for each in driver.given[-1]]


def test_a_launch_is_queued_on_xlas_stream_with_the_result_third(driver, table):
    known(table, made=plan(driver))
    assert handle(Frame([16, 32, 64], 48, stream=9)) is None and driver.launched == [(0, 9)]
    assert addresses(driver) == [16, 32, 48, 64]


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_stages_before_the_execution_queue_nothing(driver, table, stage):
    known(table, made=plan(driver))
    assert handle(Frame([16, 32, 64], 48, stage=stage)) is None
    assert not driver.launched


@pytest.mark.parametrize(("name", "traits"), [("xla_gpu", 1), ("xla_cpu", 0)])
def test_the_version_is_told_and_that_launches_may_be_captured(driver, name, traits):
    frame = Frame([], 16)
    metadata = (ctypes.c_int32 * 12)(*[-1] * 12)
    extension = (U64 * 4)(32, 1, 0, ctypes.addressof(metadata))
    frame.words[1] = ctypes.addressof(extension)
    assert handle(frame, name) is None and not driver.launched
    assert metadata[6:9] == [0, 1, traits]  # major, minor, traits


@pytest.mark.parametrize("inputs", [(8, 32, 64), (16, 32, 65)])
def test_misaligned_buffers_are_refused(driver, table, inputs):
    known(table, made=plan(driver))
    frame = Frame(inputs, 48)
    assert handle(frame) == 0xE0 and not driver.launched
    assert frame.messages == [
        ("weft.jax.matmul: expected buffers of XLA that begin at multiples of 16 bytes", 13)
    ]


def test_an_error_of_xla_is_handed_on(driver, table):
    known(table, made=plan(driver))
    assert handle(Frame([16, 32, 64], 48, stream_error=0xF0)) == 0xF0 and not driver.launched


def test_launches_are_found_by_product_and_gpu(driver, table):
    """Also those that share a bucket of the table."""
    made = []
    for number in range(200):
        parameters = [Parameter(number.to_bytes(8, "little"))]
        driver.sizes = [8]
        made.append(launcher.Plan(100, 200, cuda.CUlaunchConfig(), parameters, 3))
        known(table, str(number), gpu=number % 3, made=made[-1])
    for number in (0, 7, 199):
        assert handle(Frame([16, 32], 48, str(number), gpu=number % 3)) is None
        assert addresses(driver) == [number]


def test_an_unknown_product_is_prepared_once(driver, monkeypatch, table):
    text = text_of(a_product(), [((64, 64), "f16")] * 2, ((64, 64), "f16"))
    asked = []

    def prepared(self, ordinal):
        asked.append((self.described, ordinal))
        return Launch(plan(driver))

    monkeypatch.setattr(Parsed, "prepared", prepared)
    for stage in (2, 3, 3):
        assert handle(Frame([16, 32, 64], 48, text, stage=stage)) is None
    assert asked == [((((64, 64), "f16"),) * 2, 0)] and len(driver.launched) == 2


def test_a_product_without_a_kernel_says_why(driver):
    text = text_of(a_product(), [((64, 64), "f16")] * 2, ((64, 64), "f16"))
    driver.majors = [6, 6]
    frame = Frame([16, 32], 48, text, stage=2)
    assert handle(frame) == 0xE0
    ((message, _),) = frame.messages
    assert message.startswith("weft.jax.matmul: ")


def test_a_stream_without_a_workspace_gets_one(driver, table):
    launch = known(table, made=plan(driver, workspaces=1), workspaces=True)
    for _ in range(2):
        assert handle(Frame([16, 32, 64], 48, stream=7)) is None
    assert launch.asked == [(launcher.NO_WORKSPACE, 7)] and len(driver.launched) == 2
    assert addresses(driver) == [16, 32, 48, 64, 4096]


def test_captured_launches_share_workspaces_with_those_of_one_result(driver, table):
    """Nodes of a graph may run at the same time, but not two that write one array."""
    driver.captured = {7: 1}
    own = Launch(plan(driver))
    launch = known(table, made=plan(driver, workspaces=1), workspaces=True, own=own)
    driver.sizes = [8] * 4
    for result in (48, 1 << 20, 48):
        assert handle(Frame([16, 32, 64], result, stream=7)) is None
    assert [result for _, result in launch.keys] == [48, 1 << 20] and not launch.asked
    assert len(driver.launched) == 3 and addresses(driver) == [16, 32, 48, 64]


def test_an_error_of_the_driver_is_told_by_xla(driver, table):
    launch = known(table, made=plan(driver, function=201), error=WeftError("launching f: no"))
    frame = Frame([16, 32, 64], 48)
    assert handle(frame) == 0xE0 and frame.messages == [("weft.jax.matmul: launching f: no", 13)]
    assert launch.asked == [(int(cuda.CUresult.CUDA_ERROR_INVALID_HANDLE), 5)]


def test_nothing_is_asked_of_python_when_it_ends(driver, table):
    xla_target.connect(None)
    frame = Frame([16, 32, 64], 48)
    assert handle(frame) == 0xE0 and frame.messages == [("weft.jax.matmul: the process ends", 13)]
    assert host.functions.asking_threads() == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_fails_the_product(driver):
    frame = Frame([16, 32, 64], 48, "no product")
    assert handle(frame) == 0xE0
    ((message, code),) = frame.messages
    assert "the product failed" in message and code == 13


def test_a_prepared_launch_provides_workspaces_and_reports_errors(driver):
    loaded = runtime.load(b"", 0)
    prepared = loaded.prepare("f", (1, 1, 1), (32, 1, 1), [])
    prepared.launch(3)
    with pytest.raises(WeftError, match=r"launching f .*CUDA_ERROR_INVALID_HANDLE"):
        prepared.provide(int(cuda.CUresult.CUDA_ERROR_INVALID_HANDLE), 3)


def test_a_cubin_stays_on_the_gpu_until_it_is_closed(driver):
    """A graph may hold its launches."""
    loaded = runtime.load(b"", 0)
    del loaded
    gc.collect()
    assert driver.unloaded == 0
    loaded = runtime.load(b"", 0)
    loaded.close()
    loaded.close()
    assert driver.unloaded == 1
    with pytest.raises(WeftError, match="its module is closed"):
        loaded.prepare("f", (1, 1, 1), (32, 1, 1), [])


class Spaces:
    """Stands for `workspace.PerStream`."""

    count = 1

    def of_key(self, key):
        return [4096 + key[1]]


def test_a_launch_with_workspaces_of_its_own_has_them_on_every_stream(driver):
    parameters = [Parameter(bytes(8), n) for n in range(3)]
    driver.sizes = [8] * 3
    loaded = runtime.load(b"", 0)
    prepared = loaded.prepare("f", (1, 1, 1), (32, 1, 1), parameters, workspaces=Spaces())
    own = prepared.with_workspaces((-1, 64))
    assert prepared.has_workspaces and not own.has_workspaces
    own.launch(3, 16, 32)
    assert addresses(driver) == [16, 32, 4160]


def a_product(**given):
    return Product(**given).checked()


def test_a_product_is_read_as_it_was_written():
    schedule = "{block = array<i64: 128, 128, 32>, warps = array<i64: 2, 2>, stages = 4}"
    product = a_product(alpha=-0.0, schedule=schedule, transpose_b=True, kind=("nvfp4", "nvfp4"))
    described = (((32, 64), "ui8"), ((48, 64), "ui8"))
    parsed = Parsed.of(text_of(product, described, ((32, 48), "bf16")))
    assert (parsed.product, parsed.described) == (product, described)
    assert str(parsed.product.alpha) == "-0.0" and parsed.result == ((32, 48), "bf16")


def test_a_product_of_another_format_is_refused():
    text = text_of(a_product(), [((64, 64), "f16")] * 2, ((64, 64), "f16"))
    with pytest.raises(WeftError, match="format 1, got one of format 2: trace or export"):
        Parsed.of(text.replace('"version":1', '"version":2'))
