"""`weft.matmul`: a matrix product of arrays, on the GPU that holds them."""

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft import arrays, kernel, runtime
from weft.arrays import ArrayView
from weft.builder import Module, memref
from weft.dialects import tile
from weft.dialects.schedule import AnySchedule, Types, WarpgroupSchedule
from weft.errors import WeftError
from weft.passes import choice

_MOST_PREPARED = 4096
# What D has where neither `out` nor `out_dtype` says: sums of bytes are integers, fp8 has too few bits.
_OUTPUTS = {"i8": "i32", "ui8": "i32", "f8E4M3FN": "bf16", "f8E5M2": "bf16"}


@dataclass(frozen=True, eq=False)
class Epilogue:
    """What `weft.matmul` does with a product before it rounds it: `residual + activation(product + bias)`.

    `bias` has an element for each column, `residual` the result's shape; the activation is relu, gelu,
    gelu_tanh (gelu as tanh approximates it) or silu.
    """

    bias: Any = None
    activation: str | None = None
    residual: Any = None


def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    out: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    out_dtype: str | None = None,
    schedule: AnySchedule | None = None,
    stream: Any = None,
) -> Any:
    """`alpha * a @ b + beta * c` of matrices: a M x K (K x M with `transpose_a`), b K x N (N x K with
    `transpose_b`), c and the result M x N. An `epilogue` adds to it, in f32 (i32) like all before the result
    is rounded.

    Takes arrays of PyTorch, CuPy and NumPy, and whatever has DLPack or `__cuda_array_interface__`: all on
    one GPU, or all on the CPU, whence they are copied (with no GPU, the emulator multiplies them). `out`
    gets the result, else a new array of `a`'s library does, of type `out_dtype` (MLIR's name; by default
    that of `a`, bf16 for fp8, i32 for i8 and ui8). A result of fp8 is rounded to the nearest, beyond the
    range to the largest number. Without `c`, beta scales what `out` holds. Elements are f16, bf16, f32
    (multiplied as tf32, on sm_90a), fp8, i8 and ui8 (sm_90a). The launch is queued on `stream`, else on
    the current stream of PyTorch or CuPy, else on the default one, and not waited for. `schedule` is how
    the product is laid over the chip, chosen from its sizes without.

    Raises WeftError for arrays that don't fit, or that no kernel multiplies.
    """
    known = _prepared.get((id(a), id(b), id(out)))
    if known is None or not (
        known.is_for(a, b, out, c, epilogue)
        and known.options == (out_dtype, transpose_a, transpose_b, alpha, beta, schedule)
    ):
        options = out_dtype, transpose_a, transpose_b, alpha, beta, schedule
        given = _Given.of(a, b, c, out, epilogue, *options)
        if given.on_cpu:
            given.kernel()(*given.views)
            return given.out
        known = _Call(given, options)
        if out is not None:
            if len(_prepared) >= _MOST_PREPARED:
                _prepared.clear()
            _prepared[id(a), id(b), id(out)] = known
        out = given.out
    known.launch(known.current() if stream is None else runtime.stream_handle(stream))
    return out


@dataclass(frozen=True)
class _Given:
    """The arrays of one call as views, transposes taken from their strides."""

    arrays: tuple[Any, ...]
    views: tuple[ArrayView, ...]
    out: Any
    transposed: tuple[bool, bool]
    alpha: float
    beta: float
    schedule: AnySchedule | None
    roles: tuple[str, ...]  # of the arrays after `out`
    activation: str | None

    @classmethod
    def of(
        cls,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        epilogue: Epilogue | None,
        out_dtype: str | None,
        transpose_a: bool,
        transpose_b: bool,
        alpha: float,
        beta: float,
        schedule: AnySchedule | None,
    ) -> "_Given":
        """Raises WeftError for arrays that make no product."""
        view_a, flipped_a = _matrix("a", a)
        view_b, flipped_b = _matrix("b", b)
        transposed = transpose_a != flipped_a, transpose_b != flipped_b
        (m, k), (k_b, n) = (
            v.shape[::-1] if t else v.shape for v, t in zip((view_a, view_b), transposed, strict=True)
        )
        if k != k_b:
            raise WeftError(f"weft.matmul: a is {m} x {k} and b {k_b} x {n}: they don't agree on K")
        if out is None:
            if beta and c is None:
                raise WeftError("weft.matmul: beta scales c, or what out holds: neither is given")
            out = _empty(a, view_a, (m, n), out_dtype or _OUTPUTS.get(view_a.dtype, view_a.dtype))
        added = _added(c, epilogue)
        rest = [_shaped("out", out, (m, n))]
        rest += [_shaped(name, x, (n,) if name == "bias" else (m, n)) for name, x in added.items()]
        if out_dtype is not None and rest[0].dtype != out_dtype:
            raise WeftError(f"weft.matmul: out has elements of {rest[0].dtype}, out_dtype is {out_dtype}")
        views = (view_a, view_b, *rest)
        places = {(v.device, v.device_id) for v in views if v.device_id >= 0}
        if len({v.device for v in views}) > 1 or len(places) > 1:
            found = ", ".join(sorted(f"{device}:{number}" for device, number in places))
            raise WeftError(f"weft.matmul: expects all arrays in one memory, got them on {found}")
        held = (a, b, out, *added.values())
        activation = epilogue.activation if epilogue else None
        scales = float(alpha), float(beta)
        return cls(held, views, out, transposed, *scales, schedule, tuple(added), activation)

    @property
    def on_cpu(self) -> bool:
        return self.views[0].device == "cpu"

    def kernel(self) -> kernel.Kernel:
        """The kernel for these types and sizes, compiled once."""
        a, b, d, *rest = self.views
        types = Types(a.dtype, b.dtype, d.dtype, (self.transposed[0], not self.transposed[1]))
        chip = runtime.current().chip if runtime.available() is None else "sm_90a"
        schedule = self.schedule
        if schedule is None and chip in WarpgroupSchedule.chips(types):
            m, n = d.shape
            k = a.shape[0] if self.transposed[0] else a.shape[1]
            schedule = choice.choose(m, n, k, types, chip)
        scales = self.alpha, self.beta
        added = tuple((role, view.dtype) for role, view in zip(self.roles, rest, strict=True))
        return _compiled(types, added, self.transposed, scales, self.activation, schedule, chip)


def plain(types: Types, schedule: AnySchedule, chip: str) -> kernel.Kernel:
    """The kernel of `a @ b` with nothing around it. Raises WeftError where there is none."""
    transposed = types.transposed[0], not types.transposed[1]
    return _compiled(types, None, transposed, (1.0, 0.0), schedule, chip)


@functools.lru_cache(maxsize=1024)
def _compiled(
    types: Types,
    added: tuple[tuple[str, str], ...],
    transposed: tuple[bool, bool],
    scales: tuple[float, float],
    activation: str | None,
    schedule: AnySchedule | None,
    chip: str,
) -> kernel.Kernel:
    with Module() as module:
        matrices = [memref("?x?", kind, strides=("?", 1)) for kind in (types.a, types.b, types.d)]
        matrices += [
            memref("?", kind) if role == "bias" else memref("?x?", kind, strides=("?", 1))
            for role, kind in added
        ]
        with module.func("matmul", matrices) as operands:
            a, b, d, *rest = operands
            roles = {role: value for (role, _), value in zip(added, rest, strict=True)}
            tile.matmul(
                a,
                b,
                d,
                **roles,
                activation=activation,
                transpose_a=transposed[0],
                transpose_b=transposed[1],
                alpha=scales[0],
                beta=scales[1],
                schedule=schedule,
            )
    return kernel.compile(module, arch=chip)


class _Call:
    """A prepared launch, with what tells that it's still for the same arrays: an id may pass to another."""

    def __init__(self, given: _Given, options: tuple[Any, ...]) -> None:
        self.options = options
        self.prepared = given.kernel().prepare(*given.views)
        self.launch = self.prepared.launch
        self.current = _current_stream(given.arrays[0], given.views[0].device_id)
        self._watch(given)

    def _watch(self, given: _Given) -> None:
        watched = [_watched(array, view) for array, view in zip(given.arrays, given.views, strict=True)]
        self.a, self.b, self.out, *rest = watched
        self.added = dict(zip(given.roles, rest, strict=True))
        self.activation = given.activation
        self.bare = not rest and given.activation is None

    def is_for(self, a: Any, b: Any, out: Any, c: Any, epilogue: Epilogue | None) -> bool:
        """Whether these are the arrays, where and as large as they were."""
        ours, pointer, address, shape = self.a
        if ours() is not a or pointer(a) != address or a.shape != shape:
            return False
        ours, pointer, address, shape = self.b
        if ours() is not b or pointer(b) != address or b.shape != shape:
            return False
        ours, pointer, address, shape = self.out
        if ours() is not out or pointer(out) != address or out.shape != shape:
            return False
        if c is None and epilogue is None:
            return self.bare
        added, activation = _added(c, epilogue), epilogue.activation if epilogue else None
        return (
            activation == self.activation
            and added.keys() == self.added.keys()
            and all(_is_still(added[name], known) for name, known in self.added.items())
        )


_Watched = tuple[Callable[[], Any], Callable[[Any], int], int, Any]


def _is_still(array: Any, known: _Watched) -> bool:
    """Whether an array is the one that was watched, where and as large as it was."""
    ours, pointer, address, shape = known
    return bool(ours() is array and pointer(array) == address and array.shape == shape)


def _added(c: Any, epilogue: Epilogue | None) -> dict[str, Any]:
    """The arrays that are added to a product, by their roles. Raises WeftError for no epilogue."""
    if epilogue is None:
        return {} if c is None else {"c": c}
    if not isinstance(epilogue, Epilogue):
        raise WeftError(f"weft.matmul: expects epilogue to be a weft.Epilogue, got {type(epilogue).__name__}")
    given = {"c": c, "bias": epilogue.bias, "residual": epilogue.residual}
    return {role: array for role, array in given.items() if array is not None}


def _shaped(name: str, array: Any, shape: tuple[int, ...]) -> ArrayView:
    """The view of an array of this shape. Raises WeftError for one of another."""
    view = arrays.view(array)
    if view.shape != shape:
        wanted = " x ".join(map(str, shape)) + (" elements" if len(shape) == 1 else "")
        raise WeftError(f"weft.matmul: expects {name} of {wanted}, got {_sizes(view)}")
    if view.shape[-1] > 1 and view.strides[-1] != 1:
        what = "elements" if len(shape) == 1 else "rows of elements"
        found = f"strides {view.strides}"
        raise WeftError(f"weft.matmul: expects {name} of {what} that lie together, got {found}")
    return view


def _watched(array: Any, view: ArrayView) -> _Watched:
    """An array that may go, how to ask where it is, and what is known of it."""
    return weakref.ref(array), _pointer(array), view.address, array.shape


_prepared: dict[tuple[int, int, int], _Call] = {}


def _matrix(name: str, array: Any) -> tuple[ArrayView, bool]:
    """The view of a matrix, and whether its columns are what lies together."""
    view = arrays.view(array)
    if len(view.shape) != 2:
        raise WeftError(f"weft.matmul: expects {name} to be a matrix, got {_sizes(view)}")
    rows, columns = view.strides
    flipped = columns != 1 and view.shape[1] > 1 and (rows == 1 or view.shape[0] == 1)
    if not flipped and columns != 1 and view.shape[1] > 1:
        raise WeftError(
            f"weft.matmul: expects {name} with rows or columns that lie together, got strides {view.strides}"
        )
    if not flipped:
        return view, False
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1]), True


def _sizes(view: ArrayView) -> str:
    return " x ".join(map(str, view.shape)) or "a single number"


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _empty(like: Any, view: ArrayView, shape: tuple[int, int], dtype: str) -> Any:
    """A new array of a library, where another one is. Raises WeftError for a library that isn't known."""
    name = arrays.numpy_dtype(dtype).name
    if _library(like) == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, name), device=like.device)
    if view.device == "cpu":
        return np.empty(shape, arrays.numpy_dtype(dtype))
    if _library(like) == "cupy":
        import cupy

        return cupy.empty(shape, arrays.numpy_dtype(dtype))
    return runtime.DeviceArray(shape, dtype, max(view.device_id, 0))


def _pointer(array: Any) -> Callable[[Any], int]:
    """How to ask an array of a library where its memory is."""
    if _library(array) == "torch":
        pointer: Callable[[Any], int] = type(array).data_ptr
        return pointer
    if _library(array) == "cupy":
        return lambda given: int(given.data.ptr)
    return lambda given: arrays.view(given).address


def _current_stream(array: Any, device: int) -> Callable[[], int]:
    """How to ask an array's library for its current stream."""
    if _library(array) == "torch":
        import torch

        return functools.partial(torch._C._cuda_getCurrentRawStream, device)
    if _library(array) == "cupy":
        import cupy

        return lambda: int(cupy.cuda.get_current_stream().ptr)
    return lambda: 0
