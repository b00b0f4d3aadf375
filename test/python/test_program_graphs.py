"""Programs captured as CUDA graphs, with a driver that executes nothing."""

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import fake_driver
import numpy as np
import pytest
from fake_driver import FakeDriver

import weft
from weft.errors import WeftError
from weft.launch.program import Program
from weft.launch.runtime import DeviceArray
from weft.launch.torch_export import Exported, Input
from weft.launch.torch_program import TorchProgram

CHAIN = """
func.func @chain(%a: tensor<?x32xf16>, %b: tensor<32x32xf16>) -> tensor<?x32xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = arith.constant 0 : index
  %m = tensor.dim %a, %0 : tensor<?x32xf16>
  %e = tensor.empty(%m) : tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %p = linalg.matmul ins(%a, %b : tensor<?x32xf16>, tensor<32x32xf16>) outs(%f : tensor<?x32xf32>)
    -> tensor<?x32xf32>
  %r = linalg.exp ins(%p : tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}"""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    with fake_driver.two_gpus(monkeypatch) as fake:
        yield fake


def test_a_replay_launches_all_kernels_of_a_captured_call(driver: FakeDriver) -> None:
    program = weft.from_linalg(CHAIN, "sm_90a")
    a, b = DeviceArray((8, 32), "f16"), DeviceArray((32, 32), "f16")
    graph = program.capture(a, b)
    assert driver.launched == [(0, 77)] * 2  # recorded on a stream of its own
    assert not driver.captured and not driver.replayed
    assert isinstance(graph.results, DeviceArray)
    assert (graph.results.shape, graph.results.dtype) == ((8, 32), "f32")
    assert graph.replay() is graph.results
    graph.replay(stream=5)
    assert driver.replayed == [(501, 0), (501, 5)]
    assert len(driver.launched) == 2


def test_a_module_is_captured_with_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 3)
    program = weft.from_linalg(CHAIN, "sm_80")
    given: list[Any] = []

    def capture(_: Program, *args: Any) -> Any:
        given.extend(args)
        return SimpleNamespace(results=args[-1])

    monkeypatch.setattr(Program, "capture", capture)
    x = torch.ones(2, 4)
    inputs = (Input(torch.float32, (2, 4)),)
    exported = Exported(["weight", "bias"], "", inputs, lambda results: {"y": results[0]})
    assert TorchProgram(program, model, exported).capture(x).results == {"y": x}
    assert [each.data_ptr() for each in given] == [e.data_ptr() for e in (model.weight, model.bias, x)]
    assert not any(each.requires_grad for each in given)


def test_a_graph_keeps_the_memory_of_its_kernels(driver: FakeDriver) -> None:
    program = weft.from_linalg(CHAIN, "sm_90a")
    graph: Any = program.capture(DeviceArray((8, 32), "f16"), DeviceArray((32, 32), "f16"))
    gc.collect()
    assert not driver.freed
    del graph
    gc.collect()
    assert len(driver.freed) == 4  # the arguments, the product and the result
    assert sorted(driver.destroyed) == [500, 501]


def test_a_capture_that_fails_is_ended(driver: FakeDriver) -> None:
    program = weft.from_linalg(CHAIN, "sm_90a")
    with pytest.raises(WeftError, match="argument 1 must have the elements of 32x32"):
        program.capture(DeviceArray((8, 32), "f16"), DeviceArray((5,), "f16"))
    assert not driver.captured
    assert driver.destroyed == [500]


def test_a_capture_needs_arrays_on_a_gpu(driver: FakeDriver) -> None:
    program = weft.from_linalg(CHAIN, "sm_90a")
    with pytest.raises(WeftError, match="capture needs arrays on a GPU; got"):
        program.capture(DeviceArray((8, 32), "f16"), np.zeros((32, 32), np.float16))
    with pytest.raises(WeftError, match="chain has 2 arguments; got 1"):
        program.capture(DeviceArray((8, 32), "f16"))
    with pytest.raises(WeftError, match="capture needs an array on a GPU among the arguments"):
        program.capture(3, 4)
