"""`weft.matmul`: a matrix product of arrays, on the GPU that holds them."""

from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

from weft.dialects.operand_roles import ROLES, extents
from weft.dialects.schedule import AnySchedule, Types, ceil_div
from weft.errors import WeftError
from weft.isa.launch_limits import size_complaint
from weft.launch import arrays, cuda_driver, kernel, libraries, runtime, torch_tensors
from weft.launch.arrays import ArrayView
from weft.launch.launcher import OVERLAP
from weft.multiply import jax_call, padded_rows, product_kernel
from weft.multiply.options import Options, check_groups, checked_activation
from weft.multiply.padded_rows import Copied
from weft.multiply.plans import DESCRIBE, Handed, Plan, Plans, one_by_one, reach
from weft.schedules import choice

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


@torch_tensors.outside_of_graphs
def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    out: Any = None,
    alpha: float = 1.0,
    beta: float | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    scales: tuple[Any, Any] | None = None,
    groups: Any = None,
    promote: bool = False,
    out_dtype: str | None = None,
    schedule: AnySchedule | str | None = None,
    stream: Any = None,
) -> Any:
    """`alpha * a @ b + beta * c`, with an optional epilogue.

    `a` is M x K (K x M with `transpose_a`), `b` is K x N (N x K with `transpose_b`), `c` and the result are
    M x N. The `epilogue` is computed in f32 (i32 for integers) before the result is rounded.

    One more dimension in front makes a batch. All arrays that have it, and the result, have the same number
    of matrices; an array without it, or with one matrix, takes part in every product.

    `groups` (int32) makes products of different sizes. With a batch of `b` alone, it holds the number of the
    `b` for each row of `a`; a negative number leaves the row of the result unchanged. All 128 rows from a
    multiple of 128 on must have the same number, except that the last of them may have negative ones: their
    rows of the result are then unspecified. With a batch of `a`, it holds the number of rows of each product
    that are computed; the other rows of the result are unspecified.

    `scales` are two float32 arrays for fp8: of `a` M x ceil(K / 128), with contiguous columns
    (`strides[-2] == 1`), and of `b` ceil(N / 128) x ceil(K / 128), N first even where `b` has K first. Both
    scale the product of each 128 elements along K before these are added in f32. Without scales, `promote`
    adds products of fp8 in f32; otherwise the tensor cores add them with about 13 bits of fraction.

    Arrays are those of PyTorch, CuPy, JAX and NumPy, and any others with DLPack or
    `__cuda_array_interface__`. All must be on one GPU or all on the CPU, from where they are copied to the
    GPU; without a GPU, the emulator multiplies them. The result is written to `out` (which can't be JAX's) or
    to a new array of `a`'s library. Its elements are of type `out_dtype` (MLIR's name; by default that of
    `a`, but bf16 for fp8 and i32 for i8 and ui8). `out` may be `c` or the residual, element for element, but
    must not share memory with other arrays, nor its elements with each other. A result in fp8 is rounded to
    the nearest number and saturates. `beta` must be given with `c`; without `c` it scales the contents of
    `out`.

    Elements are f16, bf16, f32 (multiplied as tf32), fp8, i8 and ui8. All except f16 and bf16 need sm_90a,
    with `a` as M x K and `b` as N x K (or transposes of such matrices), since tensor cores read them K-major
    only. Integers need `alpha` 1 and `beta` 0 or 1. Sizes must be in 1..2**31 - 1, and strides must not be
    negative. Fast kernels need rows at multiples of 16 bytes. A slower kernel takes other rows of f16 and
    bf16; other types, groups and `transpose_a` have arrays with such rows copied in each call.

    No gradients are computed. Arrays of PyTorch are refused where PyTorch would record gradients for them,
    and PyTorch doesn't notice that `out` changes.

    The launch is queued and not waited for: on `stream`, by default the current stream of PyTorch or CuPy,
    and for other libraries the default stream of the arrays' GPU. Where all arrays are JAX's, XLA queues it
    on its own stream and nothing is waited for either. With `stream`, with arrays of other libraries, or with
    rows that must be copied, JAX's arrays are waited for before the launch, and the GPU after it. `schedule`
    (an object, or text as the attribute of `tile.matmul` has it) sets tiles, stages and the like; by default
    it is chosen from the sizes.

    The first call for arrays of certain types, sizes, strides and alignment (to 16 bytes) plans the launch; a
    later call with any such arrays only fills in their addresses. Up to 4096 plans are kept. Any number of
    threads may call at the same time.

    Raises WeftError for arrays that don't fit, or that no kernel multiplies.
    """
    try:
        describe = DESCRIBE[type(a)]
        activation, more = None, _NO_MORE
        if c is None and epilogue is None and scales is None and groups is None:
            found = describe(a, b, out) or one_by_one(a, b, out)
        else:
            bias = residual = scale_a = scale_b = None
            if not isinstance(epilogue, _EPILOGUES) or not isinstance(scales, _SCALES):
                raise TypeError
            if epilogue is not None:
                bias, activation, residual = epilogue.bias, epilogue.activation, epilogue.residual
            if scales is not None:
                scale_a, scale_b = scales
            more = c, groups, bias, residual, scale_a, scale_b
            found = describe(a, b, out, *more) or one_by_one(a, b, out, *more)
        # Only True and False are flags, and not all that equals a number is one; zero has a sign.
        flags = id(transpose_a), id(transpose_b), id(promote), type(alpha), type(beta)
        key: Any = found[0], flags, out_dtype, alpha or str(alpha), beta, schedule, activation
        plan: Any = plans.get(key)
    except _UNKNOWN:  # `_planned` says what is wrong
        key = plan = None
    if plan is not None and (handle := plan.stream(stream)) is not None:
        _, address_a, address_b, address_out, *addresses = found
        result = out
        if out is None:
            result = plan.new()
            address_out = plan.address(result)
        status = plan.queue(handle, address_a, address_b, address_out, *addresses)
        if status == 0:
            cuda_driver.launched = plan.launch.action
            return result
        if status != OVERLAP:
            plan.launch.settle(status, handle, address_a, address_b, address_out, *addresses)
            return result
    if isinstance(plan, Handed) and stream is None:
        return plan.multiply(a, b, *(array for array in more if array is not None))
    options = Options(out_dtype, transpose_a, transpose_b, alpha, beta, promote, schedule)
    return _planned(key, a, b, out, options, c, epilogue, scales, groups, stream)


_NO_MORE: tuple[Any, ...] = ()
# What a wrong argument may raise while a plan is looked for.
_UNKNOWN = (WeftError, *arrays.BROKEN)
_EPILOGUES, _SCALES = (Epilogue, NoneType), (tuple, list, NoneType)


def _planned(
    key: Any,
    a: Any,
    b: Any,
    out: Any,
    options: Options,
    c: Any,
    epilogue: Any,
    scales: Any,
    groups: Any,
    stream: Any,
) -> Any:
    """Multiplies arrays that have no plan yet, and keeps that of arrays of a GPU by `key`."""
    added = _added(c, epilogue, scales, groups)
    activation = epilogue.activation if epilogue else None
    if out is None and stream is None and arrays.library(a) == "jax":
        handed = _handed([a, b, *added.values()], list(added), activation, options)
        if handed is not None:
            if key is not None:
                plans.add(key, handed)
            return handed.multiply(a, b, *added.values())
    given = _Given.of(a, b, out, added, activation, options)
    runtime.stream_handle(stream)  # refuses what is none
    compiled = given.kernel()
    copied = given.copied(compiled)
    if given.on_cpu:
        given.check_groups()
        padded_rows.run(compiled, given.views, copied)
        return libraries.handed_over(given.out, a) if out is None else out
    names = ("a", "b", "out", *given.roles)
    launch = padded_rows.plan(compiled, given.views, copied, reach(names, given.views))
    plan = Plan.of(launch, given.arrays, given.views[0], given.views[2])
    # Such arrays must be asked for their views each time.
    waits = any(arrays.library(array) == "jax" for array in given.arrays)
    if key is not None and not waits:
        plans.add(key, plan)
    current = libraries.current_stream(a, given.views[0].device_id)
    handle = current() if stream is None else runtime.stream_handle(stream)
    launch.launch(handle, *(view.address for view in given.views))
    if waits:  # JAX may use an array's memory again once nobody has the array
        with runtime.on(runtime.holder(given.views)):
            runtime.synchronize()
    return libraries.handed_over(given.out, a) if out is None else out


def _handed(given: list[Any], roles: list[str], activation: str | None, options: Options) -> Handed | None:
    """A plan of JAX's arrays for XLA to queue; None where it can't, since rows must be copied first, say."""
    views = jax_call.views(given)
    if views is None:
        return None
    a, b, *added = views
    product = _Given.of(a, b, None, dict(zip(roles, added, strict=True)), activation, options)
    compiled = product.kernel()
    if product.copied(compiled).numbers:
        return None
    return Handed(jax_call.call(compiled.plan(product.views), product.views[2]))


@dataclass(frozen=True)
class _Given:
    """The arrays of one call as views, transposes taken from their strides."""

    arrays: tuple[Any, ...]
    views: tuple[ArrayView, ...]
    out: Any
    transposed: tuple[bool, bool]
    options: Options
    roles: tuple[str, ...]  # of the arrays after `out`
    activation: str | None

    @classmethod
    def of(
        cls,
        a: Any,
        b: Any,
        out: Any,
        added: dict[str, Any],
        activation: str | None,
        options: Options,
    ) -> "_Given":
        """Raises WeftError for arrays that make no product, and options that are none."""
        options, activation = options.checked("c" in added), checked_activation(activation)
        view_a, transposed_a = _matrix("a", a, options.transpose_a)
        view_b, transposed_b = _matrix("b", b, options.transpose_b)
        transposed = transposed_a, transposed_b
        (m, k), (k_b, n) = (
            v.shape[-2:][::-1] if t else v.shape[-2:]
            for v, t in zip((view_a, view_b), transposed, strict=True)
        )
        if k != k_b:
            hint = "; with the other transpose_b they would" if k == n else ""
            raise WeftError(f"weft.matmul: a is {m} x {k} and b {k_b} x {n}: they don't agree on K{hint}")
        sizes = _Extents.of(m, n, k, view_a, view_b, "groups" in added)
        if sizes.matrices is None:
            view_a, view_b = _without_copies(view_a), _without_copies(view_b)
        if out is None:
            if options.beta and "c" not in added:
                raise WeftError("weft.matmul: beta scales c, or what out holds: neither is given")
            kind = options.out_dtype or _OUTPUTS.get(view_a.dtype, view_a.dtype)
            out = libraries.empty(a, view_a, sizes.of_array("out"), kind)
        rest = [sizes.view(name, array) for name, array in {"out": out, **added}.items()]
        if rest[0].readonly:
            why = " (JAX's never change: without out, the result is one)" * (arrays.library(out) == "jax")
            raise WeftError(f"weft.matmul: expects out to be an array that can be written{why}")
        if options.out_dtype not in (None, rest[0].dtype):
            found = f"{rest[0].dtype}, out_dtype is {options.out_dtype}"
            raise WeftError(f"weft.matmul: out has elements of {found}")
        views = (view_a, view_b, *rest)
        places = {(v.device, v.device_id) for v in views if v.device_id >= 0}
        if len({v.device for v in views}) > 1 or len(places) > 1:
            found = ", ".join(sorted(f"{device}:{number}" for device, number in places))
            raise WeftError(f"weft.matmul: expects all arrays in one memory, got them on {found}")
        _check_overlaps(dict(zip(("a", "b", "out", *added), views, strict=True)))
        return cls((a, b, out, *added.values()), views, out, transposed, options, tuple(added), activation)

    def check_groups(self) -> None:
        """Raises WeftError for groups of the CPU that have no meaning."""
        for role, view in zip(self.roles, self.views[3:], strict=True):
            if role == "groups":
                batch = len(self.views[2].shape) == 3
                check_groups(view.numpy(), self.views[2].shape[-2], None if batch else self.views[1].shape[0])

    @property
    def on_cpu(self) -> bool:
        return self.views[0].device == "cpu"

    @property
    def chip(self) -> str:
        """That of the GPU that holds the arrays, or that they are copied to."""
        if runtime.available() is not None:
            return "sm_90a"
        ordinal = runtime.holder(self.views)
        return (runtime.current() if ordinal is None else runtime.device(ordinal)).chip

    @property
    def types(self) -> Types:
        a, b, d, *_ = self.views
        outside = self.transposed[0], not self.transposed[1]
        scaled, grouped = "scale_a" in self.roles, "groups" in self.roles
        return Types(a.dtype, b.dtype, d.dtype, outside, self.options.promote or scaled, scaled, grouped)

    def copied(self, compiled: kernel.Kernel) -> Copied:
        """The arrays that the kernel, or one for any rows, can't take as they lie."""
        names = ("a", "b", "out", *self.roles)
        if choice.complaint(self.types, compiled.chip, any_rows=True) is None:  # a kernel takes any rows
            return Copied(names, 2, False, ())
        reads_out = self.options.beta != 0 and "c" not in self.roles
        return Copied.of(compiled, names, self.views, reads_out or "groups" in self.roles)

    def kernel(self) -> kernel.Kernel:
        """The kernel for these types and sizes, compiled once."""
        a, b, d, *rest = self.views
        options, types, chip = self.options, self.types, self.chip
        schedule = options.schedule
        assert not isinstance(schedule, str) and options.beta is not None  # as `checked` has them
        if choice.layout_complaint(types, chip):
            self._refuse_layout()
        if schedule is None and choice.complaint(types, chip) is None:
            m, n = d.shape[-2:]
            k = a.shape[-2] if self.transposed[0] else a.shape[-1]
            members = d.shape[0] if len(d.shape) == 3 else 1
            schedule = choice.choose(m, n, k, types, chip, members)
        added = tuple((role, v.dtype, len(v.shape)) for role, v in zip(self.roles, rest, strict=True))
        ranks = len(a.shape), len(b.shape), len(d.shape)
        what = options.alpha.hex(), options.beta.hex(), options.promote, self.activation
        return product_kernel.compiled(types, ranks, added, self.transposed, *what, schedule, chip)

    def _refuse_layout(self) -> None:
        """Raises WeftError for an operand that isn't K-major, which no instruction reads."""
        types = self.types
        wanted = "a as M x K in rows (without transpose_a)", "b as N x K in rows (transpose_b=True)"
        for name, array, outside in zip(wanted, self.arrays, types.transposed, strict=False):
            if outside:
                element, found = getattr(types, name[0]), arrays.view(array)
                raise WeftError(
                    f"weft.matmul: expects {name}: tensor cores read {element} with K inside alone; got "
                    f"{_sizes(found)} with strides {found.strides}"
                )


@dataclass(frozen=True)
class _Extents:
    """The sizes of a call's product, and of all arrays beside a and b."""

    m: int
    n: int
    k: int
    members: int | None  # of a batch; None for one result
    matrices: int | None  # of which each row of a has one, with groups

    @classmethod
    def of(cls, m: int, n: int, k: int, a: ArrayView, b: ArrayView, grouped: bool) -> "_Extents":
        batches = {name: v.shape[0] for name, v in (("a", a), ("b", b)) if len(v.shape) == 3}
        if grouped and not batches:
            raise WeftError("weft.matmul: expects a batch of b, or of a and b, with groups")
        if grouped and "a" not in batches:
            return cls(m, n, k, None, batches["b"])
        several = {count for count in batches.values() if count != 1}
        if len(several) > 1:
            raise WeftError(f"weft.matmul: a is a batch of {batches['a']}, and b one of {batches['b']}")
        return cls(m, n, k, max(several, default=1) if batches else None, None)

    def of_array(self, name: str) -> tuple[int, ...]:
        """The shape of an array, by its role; a batch may lack its first dimension or have a 1 there, but
        `out` may not.
        """
        groups = self.m if self.members is None else self.members
        sizes = extents(self.m, self.n, self.k, groups, ceil_div)
        shape = tuple(sizes[dimension] for dimension in ROLES["c" if name == "out" else name].sizes)
        if len(shape) == 1:
            return shape
        if name == "scale_a":
            shape = shape[::-1]  # as a lies, whose rows it scales
        of_b = name == "scale_b" and self.matrices is not None
        batch = self.matrices if of_b else self.members
        return shape if batch is None else (batch, *shape)

    def view(self, name: str, array: Any) -> ArrayView:
        """The view of an array as the kernel has it. Raises WeftError for one of another shape."""
        view, shape = _view(name, array), self.of_array(name)
        one: tuple[tuple[int, ...], ...] = ()
        if name in ("c", "residual", "scale_a", "scale_b") and self.members is not None:
            one = shape[1:], (1, *shape[1:])
        if view.shape != shape and view.shape not in one:
            wanted = " x ".join(map(str, shape)) + (" elements" if len(shape) == 1 else "")
            raise WeftError(f"weft.matmul: expects {name} of {wanted}, got {_sizes(view)}")
        if name not in ("out", "groups") and self.matrices is None:
            view = _without_copies(view)
        if name == "scale_a":
            view = _turned(view)
        if name == "out" and arrays.overlaps_itself(view):
            found = f"strides {view.strides}"
            raise WeftError(f"weft.matmul: expects out with a place for each element, got {found}")
        if view.shape[-1] > 1 and view.strides[-1] != 1:
            what = {1: "elements"}.get(len(shape), "columns" if name == "scale_a" else "rows of elements")
            found = f"strides {arrays.view(array).strides}"
            if name == "scale_a":
                found += ": the transpose of an array with a row for each block of K has such"
            raise WeftError(f"weft.matmul: expects {name} of {what} that lie together, got {found}")
        return view


def _added(c: Any, epilogue: Epilogue | None, scales: Any, groups: Any) -> dict[str, Any]:
    """The arrays beside a, b and the result, by their roles. Raises WeftError for what is no epilogue, or no
    scales.
    """
    if epilogue is not None and not isinstance(epilogue, Epilogue):
        raise WeftError(f"weft.matmul: expects epilogue to be a weft.Epilogue, got {type(epilogue).__name__}")
    if scales is not None and not (isinstance(scales, (tuple, list)) and len(scales) == 2):
        raise WeftError("weft.matmul: expects scales to be a pair, of a and of b")
    given = {"c": c, "groups": groups}
    if epilogue is not None:
        given |= {"bias": epilogue.bias, "residual": epilogue.residual}
    if scales is not None:
        given |= {"scale_a": scales[0], "scale_b": scales[1]}
    return {role: array for role, array in given.items() if array is not None}


plans = Plans()
"""Of all products so far."""


def _view(name: str, array: Any) -> ArrayView:
    """The view of an array with elements, which go up from its address."""
    if libraries.wants_gradients(array):
        advice = f"call it under torch.no_grad(), or give {name}.detach()"
        raise WeftError(f"weft.matmul: makes no gradients, which {name} requires: {advice}")
    try:
        view = arrays.view(array)
    except WeftError as error:
        raise WeftError(f"weft.matmul: {name}: {error.diagnostics[0].message}") from None
    if complaint := next(filter(None, map(size_complaint, view.shape)), None):
        raise WeftError(f"weft.matmul: {name}: {complaint}, in an array of {_sizes(view)}")
    # NumPy has negative ones for a single row, too, where they say nothing.
    strides = tuple(0 if size == 1 else s for size, s in zip(view.shape, view.strides, strict=True))
    if min(strides, default=0) < 0:
        raise WeftError(
            f"weft.matmul: expects {name} with strides that aren't negative, got {view.strides} (copy it)"
        )
    return view if min(view.strides, default=0) >= 0 else replace(view, strides=strides)


def _matrix(name: str, array: Any, transpose: bool) -> tuple[ArrayView, bool]:
    """The view of a or b with rows of elements that lie together, and whether it's the transpose of what is
    multiplied.
    """
    view = _view(name, array)
    if len(view.shape) not in (2, 3):
        raise WeftError(f"weft.matmul: expects {name} to be a matrix or a batch of them, got {_sizes(view)}")
    (height, width), (rows, columns) = view.shape[-2:], view.strides[-2:]
    flipped = columns != 1 and width > 1 and (rows == 1 or height == 1)
    if not flipped and columns != 1 and width > 1:
        raise WeftError(
            f"weft.matmul: expects {name} with rows or columns that lie together, got strides {view.strides}"
        )
    transposed = transpose != flipped
    view, other = (_turned(view), view) if flipped else (view, _turned(view))
    # A single row or column may be either, and elements that aren't of 16 bits must have K inside.
    inside = transposed == (name == "b") or arrays.numpy_dtype(view.dtype).itemsize == 2
    if not inside and 1 in view.shape[-2:] and (other.shape[-1] == 1 or other.strides[-1] == 1):
        return other, not transposed
    return view, transposed


def _check_overlaps(views: dict[str, ArrayView]) -> None:
    """Raises WeftError where the kernel would write what it has still to read."""
    out = _without_copies(views["out"])
    place = out.address, out.shape, out.strides, out.dtype
    for name, view in views.items():
        in_place = name in ("c", "residual") and (view.address, view.shape, view.strides, view.dtype) == place
        if name != "out" and not in_place and arrays.overlap(out, view):
            what = "; it may be c or residual, but of the same place" * (name in ("c", "residual"))
            raise WeftError(f"weft.matmul: out overlaps {name}, which is read while out is written{what}")


def _turned(view: ArrayView) -> ArrayView:
    """A matrix or batch with rows for columns."""
    turned = [(*each[:-2], each[-1], each[-2]) for each in (view.shape, view.strides)]
    return replace(view, shape=turned[0], strides=turned[1])


def _without_copies(view: ArrayView) -> ArrayView:
    """A batch of one matrix, once or over and over, as that matrix: a kernel takes it for every product."""
    if len(view.shape) != 3 or (view.shape[0] > 1 and view.strides[0] != 0):
        return view
    return replace(view, shape=view.shape[1:], strides=view.strides[1:])


def _sizes(view: ArrayView) -> str:
    return " x ".join(map(str, view.shape)) or "a single number"
