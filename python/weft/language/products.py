"""Asynchronous products of a warpgroup, and waiting for them."""

from collections.abc import Iterator
from typing import Any

from weft import construction
from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.language import registers, trace
from weft.language.buffers import Buffer
from weft.language.carried import Carried
from weft.language.fragments import Fragment
from weft.language.mistakes import at, mistake
from weft.language.scalars import DType, dtype_of, f32, i8, i32
from weft.mlir import arith
from weft.passes.builders import emit
from weft.passes.kernels.fragments import undefined


class Pending(Carried):
    """A product that may not be finished. Wait for it, or let the next product add to it."""

    def __init__(self, value: Any, group: int) -> None:
        self.value, self.group = value, group
        self.where = construction.here()

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(self.value.type.shape)

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.value.type.element_type)

    def _refuse(self, *_: Any) -> Any:
        raise mistake(
            f"this product is still being computed{at(self.where)}: first write 'x = w.wait(x)'",
            ("the product starts here", self.where),
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __iter__ = to = elements = _refuse

    def parts(self) -> list[Any]:
        return [self.value]

    def like(self, parts: Iterator[Any]) -> "Pending":
        return Pending(next(parts), trace.current().groups)

    def complaint(self, other: "Pending") -> str | None:
        if other.value.type == self.value.type:
            return None
        return f"was {self} and becomes {other}"

    def __str__(self) -> str:
        return f"a pending product of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self}>"


def gemm(a: Any, b: Any, sums: Any = None) -> Pending:
    """Starts `a @ b`, or `sums + a @ b`, by the warpgroup. The result is pending until `w.wait`.

    `a` is a buffer of 64 (or a multiple) x K, or a fragment such as the sums of another product in 16 bits;
    `b` is a buffer of K x N. Either may be transposed: `b.T`. `sums` may be pending itself. Buffers must not
    be released, and must not change, before the product is finished.
    """
    current = trace.current()
    if current.role is None or current.one_thread:
        raise mistake("w.gemm must be in a role, executed by whole warpgroups")
    for name, value, legal in (("a", a, (Buffer, Fragment)), ("b", b, (Buffer,))):
        if isinstance(value, Pending):
            value._refuse()
        if not isinstance(value, legal):
            kinds = "a buffer or a fragment" if name == "a" else "a buffer in shared memory"
            raise mistake(f"{name} of w.gemm must be {kinds}, got {value}")
    (m, k), (k_of_b, n) = a.shape, b.shape
    if k != k_of_b:
        meant = ": did you mean b.T?" if b.shape[1] == k else ""
        raise mistake(f"a has {k} columns and b has {k_of_b} rows, which must be equal{meant}")
    if m % registers.WGMMA_ROWS:
        raise mistake(f"a must have a multiple of {registers.WGMMA_ROWS} rows for each warpgroup, got {m}")
    if a.dtype != b.dtype and (a.dtype.bits, b.dtype.bits) != (8, 8):
        raise mistake(f"a and b must have one type, got {a.dtype} and {b.dtype}: convert with .to")
    if isinstance(a, Fragment):
        _check_operand(a)
    start, continues = _start(sums, (m, n), i32 if a.dtype == i8 else f32)
    result = tile.gemm_async(
        a.value,
        b.value,
        start,
        arith.constant(emit.i1(), int(continues)),
        transpose_a=isinstance(a, Buffer) and a.transposed,
        transpose_b=b.transposed,
    )
    current.groups += 1
    return Pending(result, current.groups)


def _check_operand(a: Fragment) -> None:
    """Raises WeftError for a fragment that isn't in the layout of A in registers."""
    wanted = registers.sums(a.shape)
    if a.dtype.bits != 16:
        raise mistake(
            f"a fragment as a of w.gemm must have 16 bits, got {a}: convert it with .to(w.bf16), or store it "
            "in a buffer"
        )
    if not registers.same(a.layout, wanted, a.shape):
        raise mistake(f"a fragment as a of w.gemm must be in layout {wanted}, that of sums, got {a.layout}")


def _start(sums: Any, shape: tuple[int, int], dtype: DType) -> tuple[Any, bool]:
    """What the product adds to, and whether it does."""
    kind = FragmentType.of(shape, dtype.type, registers.sums(shape))
    if sums is None:
        return undefined(kind), False
    if not isinstance(sums, (Fragment, Pending)):
        raise mistake(f"sums of w.gemm must be a fragment or a pending product, got {sums}")
    if (tuple(sums.shape), sums.dtype) != (shape, dtype):
        raise mistake(f"sums of this product must be {shape[0]} x {shape[1]} {dtype}, got {sums}")
    value = sums.value
    if not registers.same(value.type.layout, kind.layout, shape):
        raise mistake(
            f"sums of w.gemm must be in layout {kind.layout}, got {value.type.layout}{at(sums.where)}"
        )
    return value, True


def wait(*products: Any, pending: int = 0) -> Any:
    """Waits until at most `pending` products of the warpgroup are unfinished, and returns these products.

    The products that are finished by then become fragments: all of them with `pending=0`, otherwise all but
    the `pending` that were started last. These stay pending.
    """
    current = trace.current()
    if not isinstance(pending, int) or pending < 0:
        raise mistake(f"pending must be a number of at least 0, got {pending}")
    for each in products:
        if not isinstance(each, Pending):
            raise mistake(f"w.wait expects pending products, got {each}")
    ready = [each for each in products if current.groups - each.group >= pending]
    done = dict[int, Any]()
    for kind in dict.fromkeys(each.value.type for each in ready):  # the operands of one wait have one type
        alike = [each for each in ready if each.value.type == kind]
        values = tile.wait_gemm(*(each.value for each in alike), pending=pending)
        done |= {id(each): value for each, value in zip(alike, values, strict=True)}
    if not ready:
        tile.wait_gemm(pending=pending)
    results = tuple(Fragment.of(done[id(each)]) if each in ready else each for each in products)
    return results[0] if len(results) == 1 else results or None
