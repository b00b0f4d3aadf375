"""The launches of attention for arrays of NumPy, PyTorch and CuPy: on their GPU, or in the emulator."""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.attend import fp8_launch, tiles, values
from weft.attend.kernels.combine import combine
from weft.attend.kernels.decode import decode
from weft.attend.kernels.forward import forward
from weft.attend.kernels.forward_fp8 import forward_fp8
from weft.attend.problem import FP8, ROW_BYTES, Options, Sizes, refuse, sizes_of
from weft.errors import about
from weft.launch import arrays, libraries, overlaps, runtime
from weft.launch.arrays import Array, ArrayView
from weft.launch.launcher import Extents

INTEGERS = "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table"
"""The optional arrays of i32."""
KERNEL_NAMES = {"starts_q": "cu_seqlens_q", "starts_k": "cu_seqlens_k", "pages": "page_table"}
"""The arrays that kernels have other names for."""


@dataclass(frozen=True)
class Call:
    """A call with plain arrays: those given by name, the others left out; and their views. `multiprocessors`
    are those of the GPU, 0 in the emulator.
    """

    given: Mapping[str, Any]
    views: Mapping[str, ArrayView]
    options: Options
    sizes: Sizes
    launch: Callable[..., None]
    multiprocessors: int

    @staticmethod
    def of(
        given: Mapping[str, object],
        options: Options,
        launch: Callable[..., None] | None = None,
        multiprocessors: int | None = None,
    ) -> "Call":
        """Checks a call. Raises WeftError for arrays that don't fit. `launch` calls a kernel; by default at
        once. `multiprocessors` are by default those of the GPU with q.
        """
        given = {name: each for name, each in given.items() if each is not None}
        views = {name: _view(name, each) for name, each in given.items()}
        for name in ("cu_seqlens_q", "cu_seqlens_k"):
            if name in views and (len(shape := views[name].shape) != 1 or shape[0] < 2):
                raise refuse(f"{name} must have shape (sequences + 1), of one sequence at least, got {shape}")
        sizes = sizes_of(
            {name: views[name].shape for name in "qkv"},
            {name: views[name].dtype for name in "qkv"},
            options.layout,
            packed="cu_seqlens_q" in given,
            paged="page_table" in given,
        )
        _check_rows({name: views[name] for name in "qkv"})
        _check_added(views, sizes)
        count = views["cu_seqlens_q"].shape[0] - 1 if sizes.packed else sizes.batch
        fp8_launch.check(views, sizes, count, options.splits)
        if multiprocessors is None:
            multiprocessors = _multiprocessors(views["q"])
        return Call(given, views, options, sizes, launch or operator.call, multiprocessors)

    def check_values(self) -> None:
        """Raises WeftError for integers in CPU memory that name tokens or pages that aren't there."""
        if all(view.device == "cpu" for view in self.views.values()):
            values.check(self.views, self.sizes)

    @property
    def scale(self) -> float:
        """The factor of scores."""
        return self.options.scale or 1 / math.sqrt(self.sizes.d)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in self.views["q"].shape or 0 in self.views["k"].shape

    @property
    def is_fp8(self) -> bool:
        """Whether q, k and v are of e4m3."""
        return self.views["q"].dtype == FP8

    @property
    def result_types(self) -> tuple[str, ...]:
        """The types that the output may have, the default first."""
        return fp8_launch.RESULTS if self.is_fp8 else (self.views["q"].dtype,)

    @property
    def flags(self) -> tiles.Meta:
        """The meta-parameters that follow from the options."""
        return {
            "packed": self.sizes.packed,
            "limited": "lengths" in self.given,
            "capped": self.options.softcap > 0,
            "lefts": self.options.left is not None,
            "rights": self.options.right is not None,
        }

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers of most kernels."""
        left, right = self.options.left or 0, self.options.right or 0
        return {"scale": self.scale, "softcap": self.options.softcap, "left": left, "right": right}

    def matrices(self, name: str, array: object = None) -> Array:
        """An array as batch, heads, tokens and size."""
        array = self.given[name] if array is None else array
        packed = self.sizes.packed and not (self.sizes.page and name in "kv")
        return batched(array, self.options.layout, packed)

    def added(self, name: str, dtype: str, rank: int = 1) -> Array:
        """An optional array, or one of a single element in its place."""
        if name in self.given:
            return self.given[name]
        return nothing(self.given["q"], self.views["q"], dtype, rank)

    def start(self, kernel: Any, own: Mapping[str, object], stream: object, **meta: object) -> None:
        """Launches a kernel with the arrays, numbers and flags of the call that it takes, and those of its
        `own`, by its names for them.
        """
        signature = kernel.signature
        arguments = {**self.numbers, **own}
        for name in signature.arguments:
            if name not in arguments:
                arguments[name] = self._argument(name)
        flags = {name: flag for name, flag in self.flags.items() if name in signature.meta}
        given = (arguments[name] for name in signature.arguments)
        self.launch(kernel, *given, **flags, **meta, stream=stream)

    def _argument(self, name: str) -> Array:
        """An array of the call, by a kernel's name for it."""
        if name in ("q", "k", "v"):
            return self.matrices(name)
        if name == "sinks":
            return self.sinks
        if name in fp8_launch.SCALES:
            scales = self.added(name, "f32", 2)
            return scales[None] if scales.ndim == 1 else scales  # one row for all sequences
        return self.added(KERNEL_NAMES.get(name, name), "i32", 2 if name == "pages" else 1)

    @property
    def sinks(self) -> Array:
        """The sinks in f32."""
        sinks = self.added("sinks", "f32")
        if "sinks" not in self.given or self.views["sinks"].dtype == "f32":
            return sinks
        return sinks.float() if hasattr(sinks, "float") else sinks.astype(np.float32)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        """A new array of the library of q."""
        q = self.given["q"]
        return libraries.of(q).empty(q, self.views["q"], shape, dtype)


def _multiprocessors(view: ArrayView) -> int:
    return 0 if view.device == "cpu" else runtime.device(max(view.device_id, 0)).multiprocessors


def batched(array: Array, layout: str, packed: bool) -> Array:
    """An array as batch, heads, tokens and size, without a copy."""
    if packed:
        return array.swapaxes(0, 1)[None]
    return array.swapaxes(1, 2) if layout == "bthd" else array


def _view(name: str, array: object) -> ArrayView:
    with about(f"weft.attention: {name}"):
        return arrays.view(array)


def _check_rows(views: Mapping[str, ArrayView]) -> None:
    """Raises WeftError for an array that TMA can't copy."""
    for name, view in views.items():
        if 0 in view.shape:
            continue
        outer = [
            stride * view.bits // 8
            for stride, size in zip(view.strides[:-1], view.shape, strict=False)
            if size > 1
        ]
        if view.strides[-1] != 1 and view.shape[-1] > 1:
            raise refuse(
                f"the last dimension of {name} must be contiguous, got strides {view.strides}: pass a "
                "contiguous copy"
            )
        if (rest := view.address % ROW_BYTES) or any(each % ROW_BYTES for each in outer):
            got = f"an address {rest} bytes after one" if rest else f"strides {view.strides}"
            raise refuse(
                f"rows of {name} must begin at multiples of {ROW_BYTES} bytes, got {got}: "
                f"pass a contiguous copy"
            )


def _check_added(views: Mapping[str, ArrayView], sizes: Sizes) -> None:
    """Raises WeftError for optional arrays that don't fit."""
    for name in INTEGERS:
        if name in views and views[name].dtype != "i32":
            raise refuse(f"{name} must have elements of i32, got {views[name].dtype}: convert it")
    if ("cu_seqlens_k" in views) and "cu_seqlens_q" not in views:
        raise refuse("cu_seqlens_k must come with cu_seqlens_q")
    paged = "page_table" in views
    if "cu_seqlens_q" in views and not paged and "cu_seqlens_k" not in views:
        raise refuse("cu_seqlens_q must come with cu_seqlens_k, which may be the same array")
    if paged and "cu_seqlens_k" in views:
        raise refuse("cu_seqlens_k must be None with page_table: lengths are the numbers of keys")
    if paged and "lengths" not in views:
        raise refuse("page_table must come with lengths, the numbers of keys")
    count = views["cu_seqlens_q"].shape[0] - 1 if sizes.packed else sizes.batch
    wanted: dict[str, tuple[int | None, ...]] = {"sinks": (sizes.heads,), "lengths": (count,)}
    wanted |= {name: (count + 1,) for name in INTEGERS if name.startswith("cu_")}
    wanted |= {"page_table": (count, None)}
    for name, shape in wanted.items():
        if name not in views:
            continue
        got = views[name].shape
        if len(got) != len(shape) or any(w not in (None, g) for w, g in zip(shape, got, strict=True)):
            text = ", ".join("pages" if each is None else str(each) for each in shape)
            raise refuse(f"{name} must have shape ({text}), got {tuple(got)}")
    if paged and count and not views["page_table"].shape[1]:
        raise refuse(f"page_table must have at least one page for each sequence, got shape ({count}, 0)")


@functools.lru_cache(maxsize=64)
def _nothing_of_torch(device: object, dtype: str, rank: int) -> Array:
    import torch

    return torch.zeros([1] * rank, dtype=getattr(torch, arrays.numpy_dtype(dtype).name), device=device)


def nothing(like: Array, view: ArrayView, dtype: str, rank: int = 1) -> Array:
    """An array of one element, for an argument that a kernel doesn't read."""
    if view.device == "cpu":
        return np.zeros([1] * rank, arrays.numpy_dtype(dtype))
    if arrays.library(type(like)) == "torch":
        return _nothing_of_torch(like.device, dtype, rank)
    return libraries.of(like).empty(like, view, (1,) * rank, dtype)


def run(call: Call, out: object = None, stream: object = None) -> tuple[Array, Array]:
    """The output of a call, in `out` if that is given, and the logarithms of sums."""
    sizes, types = call.sizes, call.result_types
    if out is None:
        out = call.empty(sizes.result(call.options.layout), types[0])
    else:
        _check_out(call, out, sizes.result(call.options.layout), types)
    lse = call.empty(sizes.sums, "f32")
    with libraries.queued_on(stream, call.given["q"]):
        _launch(call, out, lse, stream)
    return out, lse


def _launch(call: Call, out: Array, lse: Array, stream: object) -> None:
    sizes, flags = call.sizes, call.flags
    if call.is_empty:
        out[...] = 0  # no query sees a key
        lse[...] = call.sinks[..., None] if "sinks" in call.given else -math.inf
        return
    splits = _splits(call)
    sinking = "sinks" in call.given
    q, o, sums = call.matrices("q"), call.matrices("o", out), lse[None] if sizes.packed else lse
    causal = flags["rights"] and not flags["lefts"] and not sizes.packed
    how = {"causal": flags["rights"], "window": flags["lefts"], "capped": flags["capped"]}
    if call.is_fp8:
        meta = tiles.forward_fp8(sizes.d, sizes.e, sizes.queries, **how)
        scaled = "".join(name[0] for name in fp8_launch.SCALES if name in call.given)
        own = {"o": o, "lse": sums}
        call.start(forward_fp8, own, stream, **meta, scaled=scaled, sinking=sinking, paired=causal)
        return
    if sizes.decodes:
        # The query's heads that share keys are rows.
        grouped = sizes.batch, sizes.key_heads, sizes.group
        q, o, sums = (each[:, :, 0].reshape(*grouped, *each.shape[3:]) for each in (q, o, sums))
    result = {"o": o, "lse": sums}
    parts = result if splits == 1 else _parts(call, o, splits)
    options: tiles.Meta = {"paged": sizes.page > 0, "sinking": sinking and splits == 1, "splits": splits}
    if sizes.decodes and sizes.group <= tiles.MOST_TOGETHER:
        ahead = splits > 1 and not (flags["limited"] or sizes.page)
        meta = tiles.decode(sizes.d, sizes.e, sizes.group, page=sizes.page, ahead=ahead)
        call.start(decode, {"q": q, **parts}, stream, **meta, **options)
    else:
        rows = sizes.group if sizes.decodes else sizes.queries
        meta = tiles.forward(sizes.d, sizes.e, rows, **how, splits=splits, page=sizes.page)
        if causal and not sizes.decodes and splits == 1:
            options |= tiles.causal_order(meta, sizes.queries, sizes.keys)
        call.start(forward, {"q": q, **parts}, stream, **meta, **options, grouped=sizes.decodes)
    if splits > 1:
        unit = call.options.softcap if flags["capped"] else call.scale
        own = {"parts": parts["o"], "sums": parts["lse"], **result, "unit": unit}
        call.start(combine, own, stream, splits=splits, sinking=sinking, grouped=sizes.decodes)


def _parts(call: Call, o: Array, splits: int) -> dict[str, Array]:
    """The output and its sums of each part of the keys."""
    parts = call.empty((splits * o.shape[0], *o.shape[1:]), "f32")
    return {"o": parts, "lse": call.empty((2 * splits * o.shape[0], *o.shape[1:3]), "f32")}


def _check_out(call: Call, out: object, shape: tuple[int, ...], types: tuple[str, ...]) -> None:
    view = _view("out", out)
    if view.shape != shape or view.dtype not in types:
        legal = " or ".join(types)
        raise refuse(f"out must have shape {shape} and elements of {legal}, got {view.shape} of {view.dtype}")
    if view.strides[-1] != 1:
        raise refuse(f"the last dimension of out must be contiguous, got strides {view.strides}")
    if view.readonly:
        raise refuse("out must be writable")
    if not call.is_empty and _splits(call) == 1:  # parts are combined by stores of single elements
        _check_rows({"out": view})
    _, name = overlaps.extents({**call.views, "out": view}, ("q",))
    if name is not None:
        what = "; it may be q, element for element" * (name == "q")
        raise refuse(f"out must not overlap {name}, which is read while out is written{what}")


def extents(call: Call, out: object, names: Sequence[str]) -> Extents:
    """The extents of the arrays with these names, of which `out` must not overlap others."""
    views = {**call.views, "out": _view("out", out)}
    return overlaps.extents({name: views[name] for name in names}, ("q",))[0]


_MOST_SPLITS, _LEAST_BLOCKS = 64, 2


def _splits(call: Call) -> int:
    """The parts into which the keys are divided, so that few queries keep a GPU busy."""
    sizes = call.sizes
    if call.options.splits is not None:
        return call.options.splits
    if not call.multiprocessors or sizes.packed or call.is_fp8:
        return 1
    group = sizes.group if sizes.decodes else 1
    found = sizes.batch * sizes.heads // group * -(-sizes.queries // tiles.WARPGROUP_ROWS)
    keys = sizes.keys
    if sizes.page:
        keys = call.views["page_table"].shape[1] * sizes.page
    blocks = -(-keys // tiles.WARPGROUP_ROWS)
    if 2 * found > call.multiprocessors:
        return 1
    return max(min(call.multiprocessors // found, blocks // _LEAST_BLOCKS, _MOST_SPLITS), 1)
