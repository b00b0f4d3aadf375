"""cuBLASLt by ctypes, with the fastest of all algorithms that it proposes for a product."""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.bench.implementation import Call, Refusal, milliseconds
from weft.bench.problem import INPUTS, OUTPUTS, Buffers, Problem
from weft.isa.types import E4M3, S8, TF32

if TYPE_CHECKING:
    import torch

_WORKSPACE_BYTES = 64 << 20
_MOST_ALGORITHMS = 200
_FINALISTS, _ROUNDS = 6, 4  # timed again, in turns: one timing of each is too noisy
# cudaDataType_t, by PyTorch's names.
_TYPES = {"float32": 0, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14, "float8_e4m3fn": 28}
# cublasComputeType_t: sums of s32, of f32 from tf32, and of f32.
_SUMS = {S8: 72, TF32: 77}
_F32_SUMS = 68
# cublasLtMatmulDescAttributes_t, for the first and the second factor where there are two.
_TRANSPOSED = (3, 4)
_SCALE = (17, 18)
_FAST_SUMS = 25
# cublasLtMatmulPreferenceAttributes_t; alignments are those of both factors, C and D.
_MOST_WORKSPACE = 1
_ALIGNED = (5, 6, 7, 8)
_MOST_ALIGNED = 256


class _Proposal(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("status", c_int), ("rest", c_int * 5))


@dataclass(frozen=True)
class _Product:
    """A problem with cuBLASLt's column-major matrices: the transpose of D, with B as the first factor.
    `layouts` are those of B, A and D; `factors` are 1 and 0.
    """

    descriptor: c_void_p
    layouts: tuple[c_void_p, c_void_p, c_void_p]
    factors: tuple[c_float | c_int32, c_float | c_int32]
    workspace: "torch.Tensor"
    scale: "torch.Tensor"

    @staticmethod
    def of(problem: Problem, each: Buffers) -> "_Product":
        """The product whose buffers are laid out like `each`."""
        import torch

        row = INPUTS[problem.inputs]
        number, kind = (c_int32, _TYPES["int32"]) if row.element == S8 else (c_float, _TYPES["float32"])
        scale = torch.ones((), device=each.a.device)
        workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=each.a.device)
        descriptor = _created("MatmulDesc", _SUMS.get(row.element, _F32_SUMS), kind)
        for attribute, value in zip(_TRANSPOSED, (problem.transpose_b, problem.transpose_a), strict=True):
            _set("MatmulDesc", descriptor, attribute, c_int32(value))
        if row.element == E4M3:
            _set("MatmulDesc", descriptor, _FAST_SUMS, c_int8(not row.promoted))
            for attribute in _SCALE:
                _set("MatmulDesc", descriptor, attribute, c_uint64(scale.data_ptr()))
        of_a = _layout(each.a.mT if problem.transpose_a else each.a, row.torch)
        layouts = _layout(each.b, row.torch), of_a, _layout(each.d, OUTPUTS[problem.output])
        return _Product(descriptor, layouts, (number(1), number(0)), workspace, scale)

    def algorithms(self, sets: Sequence[Buffers]) -> "list[ctypes.Array[c_uint64]]":
        """The algorithms that the library proposes. Raises Refusal where it has none."""
        preference = _created("MatmulPreference")
        _set("MatmulPreference", preference, _MOST_WORKSPACE, c_uint64(_WORKSPACE_BYTES))
        for attribute, name in zip(_ALIGNED, ("b", "a", "d", "d"), strict=True):
            addresses = [getattr(each, name).data_ptr() for each in sets]
            aligned = min(_MOST_ALIGNED, *(address & -address for address in addresses))
            _set("MatmulPreference", preference, attribute, c_uint32(aligned))
        proposed = (_Proposal * _MOST_ALGORITHMS)()
        count = c_int()
        asked = self.descriptor, *self.layouts, self.layouts[-1], preference, _MOST_ALGORITHMS
        _call("MatmulAlgoGetHeuristic", _handle(), *asked, proposed, byref(count))
        return [each.algorithm for each in proposed[: count.value] if each.status == 0]

    def queue(self, algorithm: "ctypes.Array[c_uint64]", each: Buffers) -> None:
        """Queues the product of one set of buffers on the current stream."""
        import torch

        # Read for each call, since a graph is captured on another stream.
        stream = torch.cuda.current_stream().cuda_stream
        addresses = (*(matrix.data_ptr() for matrix in (each.b, each.a, each.d, self.workspace)), stream)
        b, a, d, workspace, queue = (c_void_p(address) for address in addresses)
        (of_b, of_a, of_d), (one, zero) = self.layouts, self.factors
        product = byref(one), b, of_b, a, of_a, byref(zero), d, of_d, d, of_d, byref(algorithm)
        _call("Matmul", _handle(), self.descriptor, *product, workspace, c_size_t(_WORKSPACE_BYTES), queue)


def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    """The calls of the algorithm that is fastest for this problem. Raises Refusal if there is none."""
    if problem.groups is not None or (row := INPUTS[problem.inputs]).block_scales or row.format:
        raise Refusal("products must be without groups, block scales and scales of the tensor cores")
    product = _Product.of(problem, sets[0])
    timed = list[tuple[float, list[Call]]]()
    for algorithm in product.algorithms(sets):
        calls: list[Call] = [partial(product.queue, algorithm, each) for each in sets]
        with suppress(Refusal):  # some that are proposed don't run
            timed.append((milliseconds(calls), calls))
    if not timed:
        raise Refusal("no algorithm that cuBLASLt proposes runs")
    finalists = [calls for _, calls in sorted(timed, key=itemgetter(0))[:_FINALISTS]] * _ROUNDS
    return min(((milliseconds(calls), calls) for calls in finalists), key=itemgetter(0))[1]


@cache
def _library() -> ctypes.CDLL:
    """The library that PyTorch has loaded."""
    import torch

    name = f"libcublasLt.so.{str(torch.version.cuda).partition('.')[0]}"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise Refusal(f"PyTorch must be a build that loads {name}, as its wheels do: {error}") from None
    library.cublasLtGetStatusName.restype = ctypes.c_char_p
    return library


@cache
def _handle() -> c_void_p:
    return _created("")


def _call(function: str, *arguments: object) -> None:
    """Calls `cublasLt` and the rest of a function's name. Raises Refusal for what the library refuses."""
    if status := getattr(_library(), f"cublasLt{function}")(*arguments):
        raise Refusal(f"cublasLt{function} returned {_library().cublasLtGetStatusName(status).decode()}")


def _created(kind: str, *arguments: object) -> c_void_p:
    """A new object of the library, of some hundred bytes, which stays until the process ends."""
    _call(f"{kind}Create", byref(created := c_void_p()), *arguments)
    return created


def _set(kind: str, of: c_void_p, attribute: int, value: c_int8 | c_int32 | c_uint32 | c_uint64) -> None:
    _call(f"{kind}SetAttribute", of, attribute, byref(value), c_size_t(ctypes.sizeof(value)))


def _layout(stored: "torch.Tensor", type_: str) -> c_void_p:
    """The layout of a row-major matrix, as that of its column-major transpose."""
    rows, columns = (c_uint64(size) for size in stored.shape)
    return _created("MatrixLayout", _TYPES[type_], columns, rows, c_int64(stored.stride(0)))
