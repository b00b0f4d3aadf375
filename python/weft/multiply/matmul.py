"""`weft.matmul`: a matrix product of arrays, on the GPU that holds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, Never

from weft.errors import WeftError, shown
from weft.isa.suggest import no_parameter
from weft.launch import arrays, cuda_driver, libraries, torch_tensors
from weft.launch.launcher import OVERLAP
from weft.launch.plans import DESCRIBE, one_by_one
from weft.multiply.array_views import refuse
from weft.multiply.plans import Handed, kept, planned
from weft.multiply.product import ROLES, Product, checked_pair
from weft.system import upper

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule


@dataclass(frozen=True, eq=False)
class Epilogue:
    """What `weft.matmul` computes from a product before it rounds: `residual + activation(product + bias)`.

    `bias` has an element for each column, `residual` the result's shape; the activation is relu, gelu,
    gelu_tanh (gelu as tanh approximates it) or silu.
    """

    bias: Any = None
    activation: str | None = None
    residual: Any = None


def _watched(*arguments: object, **options: object) -> Any:
    """`matmul` by an operator of PyTorch, which calls `matmul` for plain tensors."""
    return upper.torch().product(*arguments, **options)


@torch_tensors.traced_as(_watched)
def matmul(
    a: object,
    b: object,
    *,
    c: object = None,
    out: object = None,
    alpha: float | Any = 1.0,
    beta: float | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | Callable[..., object] | None = None,
    extra: Mapping[str, object] | Sequence[object] | None = None,
    scales: tuple[Any, Any] | None = None,
    kind: str | tuple[str, str] | None = None,
    scale_block: int | None = None,
    groups: object = None,
    row_ends: object = None,
    k_ends: object = None,
    promote: bool = False,
    accumulate: object = None,
    bit_op: str | None = None,
    batch_invariant: bool = False,
    out_dtype: object = None,
    schedule: "AnySchedule | str | None" = None,
    arch: str | None = None,
    stream: object = None,
    **others: Never,
) -> Any:
    """`residual + activation(alpha * a @ b + beta * c + bias)`: docs/python.md has examples.

    `a` is M x K (K x M with `transpose_a`), `b` is K x N (N x K with `transpose_b`), `c` and the result are
    M x N. Arrays are PyTorch, CuPy, JAX or NumPy arrays, or others with DLPack or `__cuda_array_interface__`.
    All must be on one GPU, or all on the CPU. Arrays on the CPU are copied to the GPU; without a GPU, the
    emulator multiplies them. The result is an array of the same library as `a`.

    Shapes follow NumPy's `matmul`. Dimensions before the last two are broadcast; `c`, the residual and scales
    may have fewer of them, or size 1. A vector `a` is one row and a vector `b` is one column; the result, `c`
    and the residual don't have this dimension. Leading dimensions become rows of one product, a batch, or
    several batches with one launch each; they are not copied. If K is 0, the product is 0.

    Parameters for the result:

    - `out`: the array to write to, which can't be JAX's. It may be `c` or the residual, element for element,
      but must not share memory with other arrays, nor its elements with each other.
    - `out_dtype`: the element type: MLIR's name, or a type of PyTorch, NumPy, JAX or ml_dtypes. By default
      that of `a`, but bf16 for fp8 and i32 for integers. fp8 is rounded to nearest and saturates.
    - `alpha`: a number, or an array of f32 on the same device, which the kernel reads: one element, or one
      for each product (for each `b` that rows of `a` select). Integers need `alpha` 1.
    - `c`, `beta`: `beta` must be given with `c`. Without `c`, it scales the contents of `out`. Integers need
      `beta` 0 or 1.
    - `epilogue`: an `Epilogue`, computed in f32 (i32 for integers, f64 for f64) before the result is rounded;
      or a function of an element, its row and its column, in `weft.language`'s numbers, which returns the
      element, or a tuple: then the result is a tuple, too, and so may `out` and `out_dtype` be.
    - `extra`: the arrays from which such a function also gets an element, by its parameters, or in order.
      They are M x N, N, M x 1 or one element, with leading dimensions as `c`.

    Parameters for products of different sizes, all int32:

    - `groups` with a batch of `b` alone: the index of the `b` for each row of `a`. A negative index leaves
      the row of the result unchanged. All 128 rows from a multiple of 128 on must have the same index, except
      that the last of them may have negative ones: their rows of the result are then unspecified.
    - `groups` with a batch of `a`: the number of rows of each product. Other rows are unspecified.
    - `row_ends`: for each matrix of a batch of `b`, the end of its rows of `a`, which begin at the previous
      end (the first at 0), as `offs` of PyTorch's `grouped_mm`. With block scales they begin at the previous
      end, rounded up to a multiple of 128. Other rows of the result are unchanged.
    - `k_ends`: for each product, the end of its K slice, which begins at the previous end. With `promote`,
      scales and elements of less than 8 bits, it begins at the previous end, rounded up to a multiple of 128,
      and `a` and `b` must be 0 in between. Products of empty slices are 0. Not with block scales.

    Parameters for scales and precision:

    - `scales`: a pair, for `a` and `b`. Of fp8, f32 arrays of M x ceil(K / 128), with contiguous columns
      (`strides[-2] == 1`), and ceil(N / 128) x ceil(K / 128), N first even if `b` has K first; or for each
      column of `b`, N x ceil(K / 128), with contiguous columns. They scale the product of each 128 elements
      along K before these are added in f32.
    - `scales` for rows of `a` (f32, M x 1) and columns of `b` (1 x N), as in `torch._scaled_mm`, of floats of
      at most 32 bits. One element, in any shape, scales a whole matrix. They multiply the sums before `c` is
      added. All products of a batch share them. Not with groups.
    - `scales` that tensor cores apply (sm_100a and later): arrays of float8_e8m0fnu (nvfp4: float8_e4m3fn),
      or of uint8, in the 128x4 layout of cuBLAS, PyTorch and FlashInfer, with any shape, but in whole tiles:
      128 rows of `a` (columns of `b`) x 4 groups of 32 elements along K (nvfp4: 16). Scales that pad a tile
      must not be NaN. `weft.tiled_scales` makes this layout.
    - `scale_block` (128 or 32): `scales` are int32 words of four float8_e8m0fnu, the first in the lowest
      bits, as in DeepGEMM, each for that many elements along K: M x ceil(K / 512) and N x ceil(K / 512) (for
      32, K / 128), with contiguous columns. Kernels of `tcgen05` read them (sm_100a, sm_103a, sm_110a).
    - `kind`: the format of packed elements, or a pair of formats: "nvfp4", "mxfp4", "mxfp6", "mxfp8", "int4",
      "uint4" or "bool". It may be omitted unless an array has type uint8. "mxfp6_e2m3", "mxfp6_e3m2",
      "mxfp8_e4m3" and "mxfp8_e5m2" select one of two element types. Elements are packed along K (i4, ui4 and
      i1: along rows), the first in the lowest bits. On the CPU, arrays of ml_dtypes' types, and NumPy's bool,
      have a byte for each element. K must be even for elements of 4 bits, a multiple of 8 for i1, and a
      multiple of 128 for elements of 6 bits and for those of 4 bits with others.
    - `promote`: adds products of fp8 in f32; otherwise tensor cores add them with about 13 fraction bits.
    - `accumulate="f16"`: tensor cores add products of f16 or fp8 in f16 (from sm_70 and sm_89 on). Only sums
      of K slices are added in f32. Sums of 65,520 and more become infinite.
    - `bit_op`: "xor.popc" counts the bits of i1 along K that differ, "and.popc" those that are both 1.
    - `batch_invariant`: the bits of a row of the result depend on its row of `a`, `c` and the residual, and
      on `b`, but not on M, the row's index or on the number of groups. docs/equal_bits.md has the proof.

    Parameters for the launch:

    - `schedule`: tiles, stages and the like, as an object or as text; by default chosen from the sizes.
    - `arch`: the chip, by ptxas's name, that the emulator emulates for arrays on the CPU.
    - `stream`: by default the current stream of PyTorch or CuPy, otherwise the default stream. The launch is
      queued and not waited for. It waits for the stream that `__cuda_array_interface__` names, and with
      DLPack for the legacy default stream, unless a graph is captured. If all arrays are JAX's, XLA queues
      the launch on its own stream, as `weft.jax.matmul`, also in functions that JAX traces; with `stream`,
      `out` or arrays of other libraries, the host waits for JAX's arrays, and for the launch.

    Elements are f16 (from sm_70 on), bf16, f32 (rounded to tf32) and f64 (from sm_80 on), i8 and ui8 (from
    sm_72 on), i4, ui4 and i1 (from sm_75 on; `and.popc` from sm_80 on), fp8 (from sm_89 on), fp6 and fp4
    (from sm_100a on, with `a` as M x K and `b` as N x K, or transposes of these). With f64, all arrays are
    f64, and the activation is relu. Sizes must be below 2**31, and strides must not be negative. With TMA
    (sm_90a and later chips), rows of `a` and `b` must begin at multiples of 16 bytes; others are copied in
    each call, on the same stream. So may MN-major f32, fp8 and 8-bit integers be on sm_90a, to K-major
    matrices. Rows of the result, of `c` and of the residual may begin at any element.

    f32 of PyTorch and JAX follows their settings: if `torch.set_float32_matmul_precision` or
    `jax_default_matmul_precision` asks for more than tf32, as PyTorch does by default, that library
    multiplies, without groups. `schedule` and `arch` select a kernel, which multiplies f32 as tf32.

    PyTorch computes gradients of `a`, `b`, `c`, the bias and the residual in f16, bf16, f32 and f64, but not
    with `out`, not of `a` and `b` with `scales`, and not of `b` with `groups` that select it. If PyTorch
    records gradients, traces, casts or transforms a call, or if tensors have no memory of their own, the call
    becomes an operator such as `torch.ops.weft.matmul`.

    The first call for arrays of certain types, sizes, strides and alignment (to 32 bytes) plans the launch.
    Later calls with any such arrays only fill in their addresses. Up to 4096 plans are kept. Any number of
    threads may call at the same time.

    Raises WeftError for arrays that don't fit, or that no kernel multiplies.
    """
    if others:
        raise refuse(no_parameter(matmul, next(iter(others)), _OF_EPILOGUE))
    of_alpha = alpha.__class__  # faster than `type`
    activation, more, factor = None, _NO_MORE, alpha
    roles: tuple[str, ...] = ROLES
    function, first = None, out
    plain = c is None and epilogue is None and extra is None and scales is None and groups is None
    plain = plain and row_ends is None and k_ends is None
    if not (plain and (of_alpha is float or of_alpha is int)):
        bias = residual = scale_a = scale_b = None
        if isinstance(epilogue, Epilogue):
            bias, activation, residual = epilogue.bias, epilogue.activation, epilogue.residual
        if scales is not None:
            scale_a, scale_b = checked_pair("weft.matmul", scales)
        more = c, groups, row_ends, k_ends, bias, residual, scale_a, scale_b
        if of_alpha is not float and not isinstance(alpha, Real):
            more, factor = (*more, alpha), 1.0
        if extra is not None or (epilogue is not None and not isinstance(epilogue, Epilogue)):
            from weft.multiply import element_functions

            function, read = element_functions.of_call(epilogue, extra)
            first, *further = out if isinstance(out, tuple | list) and out else (out,)
            roles = (*ROLES, *read, *(f"out[{n}]" for n in range(1, len(further) + 1)))
            more = (*more, *[None] * (len(ROLES) - len(more)), *read.values(), *further)
    try:
        describe = DESCRIBE[type(a)]
        if more:
            found = describe(a, b, first, *more) or one_by_one(a, b, first, *more)
        else:
            found = describe(a, b, out) or one_by_one(a, b, out)
        # Only True and False are flags, and not all that equals a number is one; zero has a sign.
        flags = id(transpose_a), id(transpose_b), id(promote), id(batch_invariant), of_alpha, beta.__class__
        key: Any = (
            found[0],
            flags,
            out_dtype,
            factor or str(factor),
            beta,
            schedule,
            activation if function is None else function.identity,
            kind if scale_block is None else (kind, scale_block, scale_block.__class__),
            arch,
            accumulate,
            bit_op,
        )
        plan: Any = kept.get(key) if first is out else None  # `planned` checks whether results overlap
    except _UNKNOWN:  # `planned` reports what is wrong
        key = plan = None
    if plan is not None and (handle := plan.stream(stream)) is not None:
        _, address_a, address_b, address_out, *addresses = found
        result = out
        if out is None:
            result = plan.new()
            if plan.several:
                address_out, *further = map(plan.address, result)
                addresses += further
            else:
                address_out = plan.address(result)
        elif plan.write is not None:
            plan.write(out)
        status = plan.queue(handle, address_a, address_b, address_out, *addresses)
        if status == 0:
            cuda_driver.launched = plan.launch.action
            return result
        if status != OVERLAP:
            plan.launch.settle(status, handle, address_a, address_b, address_out, *addresses)
            return result
    if isinstance(plan, Handed) and stream is None and plan.holds():
        return plan.compute(a, b, *(array for array in more if array is not None))
    if factor is not alpha and not arrays.is_array(alpha):
        raise refuse(f"alpha must be a real number or an array of f32, got {shown(alpha)}")
    added = {role: array for role, array in zip(roles, more, strict=False) if array is not None}
    product = Product(
        tuple(added),
        activation,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        alpha=factor,
        beta=beta,
        promote=promote,
        schedule=schedule,
        kind=kind,
        scale_block=scale_block,
        arch=arch,
        accumulate=accumulate,
        bit_op=bit_op,
        batch_invariant=batch_invariant,
        function=function,
    )
    given = {"a": a, "b": b, **added}
    traced = libraries.JAX.is_traced((*given.values(), out))
    if traced and (out is not None or stream is not None):
        name, got = ("out", out) if out is not None else ("stream", stream)
        raise refuse(f"{name} must be None in functions that JAX traces, got {shown(got)}")
    if traced:
        return upper.jax().products.of_roles(given, product)
    apart = stream is not None or arch is not None or function is not None
    if out is None and not apart and libraries.JAX.is_xlas(given.values()):
        handed = Handed(upper.jax().products.queued(given, product))
        if key is not None:
            kept.add(key, handed)
        return handed.compute(*given.values())
    if a is not None and b is not None and libraries.TORCH.is_watching((first, *given.values())):
        product.checked()
        if function is not None:
            legal = "a weft.Epilogue where PyTorch differentiates, casts, transforms or traces the call"
            remedy = "detach the tensors, or let PyTorch compute the function of the product's result"
            raise refuse(f"epilogue must be {legal}, got a function: {remedy}")
        options = {**product.options, "alpha": alpha, "epilogue": epilogue, "scales": scales, "c": c}
        options |= {"groups": groups, "row_ends": row_ends, "k_ends": k_ends}
        del options["activation"]
        return _watched(a, b, out=out, stream=stream, **options)
    return planned(key if first is out else None, a, b, first, added, product, stream)


_OF_EPILOGUE = {
    field.name: f"pass it in an epilogue, epilogue=weft.Epilogue({field.name}=...)"
    for field in fields(Epilogue)
}
_NO_MORE: tuple[Any, ...] = ()
# What a wrong argument may raise while a plan is looked up.
_UNKNOWN = (WeftError, *arrays.BROKEN)
