"""`weft bench --against cublaslt-tuned`, with a cuBLASLt of NumPy that reads its column-major matrices."""

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft.bench import cublaslt
from weft.bench.implementation import Refusal
from weft.bench.implementations import PEERS
from weft.bench.problem import INPUTS, LAYOUTS, OUTPUTS, Buffers, Problem

NUMPY = {0: np.float32, 2: np.float16, 3: np.int8, 10: np.int32}
NUMPY |= {14: ml_dtypes.bfloat16, 28: ml_dtypes.float8_e4m3fn}
KINDS = {name: np.dtype(NUMPY[number]) for name, number in cublaslt._TYPES.items()}
PREPARE = PEERS["cublaslt-tuned"][0].prepare


@dataclass
class Tensor:
    """As much of PyTorch's tensors as is asked for."""

    array: Any
    device: str = "cuda"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def mT(self) -> "Tensor":
        return Tensor(self.array.T)

    def stride(self, axis: int) -> int:
        return self.array.strides[axis] // self.array.itemsize

    def data_ptr(self) -> int:
        return self.array.ctypes.data


class Library:
    """cuBLASLt: its algorithms take as long as `costs` has it, or fail where that is 0."""

    def __init__(self, costs: list[int]) -> None:
        self.costs, self.objects, self.ran = costs, [None], list[int]()

    def _new(self, out: Any, *fields: Any) -> int:
        self.objects.append({"fields": [getattr(field, "value", field) for field in fields]})
        out._obj.value = len(self.objects) - 1
        return 0

    cublasLtCreate = cublasLtMatmulDescCreate = cublasLtMatmulPreferenceCreate = _new
    cublasLtMatrixLayoutCreate = _new

    def _set(self, of: Any, attribute: int, value: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self.objects[of.value][attribute] = value._obj.value, size.value
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def cublasLtGetStatusName(self, status: int) -> bytes:
        return {15: b"CUBLAS_STATUS_NOT_SUPPORTED"}[status]

    def cublasLtMatmulAlgoGetHeuristic(self, handle: Any, descriptor: Any, *more: Any) -> int:
        *_, self.preference, most, results, count = more
        if not self.costs:
            return 15
        assert ctypes.sizeof(results) == most * 96
        for number in range(len(self.costs)):
            results[number].algorithm[7] = number
        results[len(self.costs)].status = 15  # and no time
        count._obj.value = len(self.costs) + 1
        return 0

    def _matrix(self, layout: Any, address: Any) -> Any:
        kind, rows, columns, leading = self.objects[layout.value]["fields"]
        dtype = np.dtype(NUMPY[kind])
        assert leading >= rows
        memory = (ctypes.c_char * ((leading * (columns - 1) + rows) * dtype.itemsize)).from_address(
            address.value
        )
        strides = dtype.itemsize, leading * dtype.itemsize
        return np.ndarray((rows, columns), dtype, memory, strides=strides)

    def cublasLtMatmul(self, handle: Any, descriptor: Any, *more: Any) -> int:
        one, *factors, zero, c, of_c, d, of_d, algorithm, _workspace, size, stream = more
        assert (one._obj.value, zero._obj.value, size.value) == (1, 0, 64 << 20)
        assert (c.value, of_c.value, stream.value) == (d.value, of_d.value, 77)
        self.ran.append(number := algorithm._obj[7])
        if not self.costs[number]:
            return 15
        self.fields = self.objects[descriptor.value]
        left, right = (self._matrix(*factors[i : i + 2][::-1]).astype(np.float64) for i in (0, 2))
        left, right = (m.T if self.fields[i][0] else m for i, m in ((3, left), (4, right)))
        self._matrix(of_d, d)[...] = left @ right
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    fake = Library([5, 0, 3, 4])
    torch = SimpleNamespace(uint8="uint8")
    torch.cuda = SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=77))
    torch.ones = lambda shape, device: Tensor(np.ones(shape, np.float32))
    torch.empty = lambda size, dtype, device: Tensor(np.empty(size, dtype))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cublaslt, "_library", lambda: fake)

    def milliseconds(calls: Any) -> float:
        for call in calls:
            call()
        return fake.costs[fake.ran[-1]]

    monkeypatch.setattr(cublaslt, "milliseconds", milliseconds)
    cublaslt._handle.cache_clear()
    yield fake
    cublaslt._handle.cache_clear()


def placed(problem: Problem, rows: int, columns: int, type_: str) -> Tensor:
    """Small integers where the problem has them in memory, which is aligned to 256 bytes."""
    dtype, stride = KINDS[type_], columns + problem.gap
    memory = np.zeros(1024 + problem.shift + rows * stride, dtype)
    first = -memory.ctypes.data % 256 // dtype.itemsize + problem.shift
    matrix = memory[first : first + rows * stride].reshape(rows, stride)[:, :columns]
    matrix[...] = np.random.default_rng(rows).integers(-4, 5, (rows, columns))
    return Tensor(matrix)


def buffers(problem: Problem) -> Buffers:
    type_ = INPUTS[problem.inputs].torch
    sides = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    rows = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
    a = placed(problem, *rows, type_)
    d = placed(problem, problem.m, problem.n, OUTPUTS[problem.output])
    return Buffers(a.mT if problem.transpose_a else a, placed(problem, *sides, type_), d)


SUMS = {"bf16": 68, "f16": 68, "tf32": 77, "e4m3": 68, "e4m3-promoted": 68, "s8": 72}


@pytest.mark.parametrize("inputs", SUMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shift", "gap"), [(0, 0), (3, 5)])
def test_every_type_and_layout_is_multiplied(
    inputs: str, layout: str, shift: int, gap: int, library: Library
) -> None:
    of_a, of_b = (side == "t" for side in layout)
    row = INPUTS[inputs]
    problem = Problem(6, 10, 14, inputs, row.output, of_b, transpose_a=of_a, shift=shift, gap=gap)
    sets = [buffers(problem) for _ in range(2)]
    for call in PREPARE(problem, sets):
        call()
    for each in sets:
        a, b = (matrix.array.astype(np.float64) for matrix in (each.a, each.b))
        assert np.array_equal(each.d.array, a @ (b.T if of_b else b))
    integers = inputs == "s8"
    assert library.fields["fields"] == [SUMS[inputs], 10 if integers else 0]
    fast = {25: (int(not row.promoted), 1)} if inputs.startswith("e4m3") else {}
    assert {key: value for key, value in library.fields.items() if key == 25} == fast
    assert {17, 18} & library.fields.keys() == ({17, 18} if fast else set())
    itemsizes = [each.array.itemsize for each in (sets[0].b, sets[0].a, sets[0].d, sets[0].d)]
    aligned = {5 + i: (size if shift else 256, 4) for i, size in enumerate(itemsizes)}
    preference = library.objects[library.preference.value]
    assert preference == {"fields": [], 1: (64 << 20, 8)} | aligned


def test_the_fastest_algorithm_that_runs_is_chosen(library: Library) -> None:
    problem = Problem(4, 4, 4, "bf16", "bf16")
    (call,) = PREPARE(problem, [buffers(problem)])
    assert library.ran == [0, 1, 2, 3, *[2, 3, 0] * 4]
    call()
    assert library.ran[-1] == 2


@pytest.mark.parametrize(
    ("costs", "given", "reason"),
    [
        ([], {}, "cublasLtMatmulAlgoGetHeuristic returned CUBLAS_STATUS_NOT_SUPPORTED"),
        ([0, 0], {}, "no algorithm that cuBLASLt proposes runs"),
        ([1], {"groups": 3}, "products must be without groups"),
        ([1], {"inputs": "e4m3-block"}, "products must be without groups, block scales"),
        ([1], {"inputs": "mxfp8"}, "products must be without .* scales of the tensor cores"),
    ],
)
def test_what_is_refused(costs: list[int], given: dict[str, Any], reason: str, library: Library) -> None:
    library.costs = costs
    problem = Problem(**{"m": 4, "n": 4, "k": 4, "inputs": "bf16", "output": "bf16"} | given)
    sets = [] if given else [buffers(problem)]
    with pytest.raises(Refusal, match=reason):
        PREPARE(problem, sets)


def test_a_pytorch_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda="99.1")))
    with pytest.raises(Refusal, match=r"must be a build that loads libcublasLt\.so\.99, as its wheels do"):
        cublaslt._library()
