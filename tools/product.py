"""The `tile.matmul` that `weft run` checks: its sizes, its random operands and what must come out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from weft import reference
from weft.compiler.launch_record import Launch, MemrefArgument, ScalarArgument
from weft.dialects.op import refuse
from weft.dialects.operand_roles import BLOCK_SCALES, ROLES, SCALE_OF_WORDS, WORD, extents, role_of, title
from weft.dialects.product_types import ceil_div
from weft.dialects.tile import LoadElementOp, MatmulOp
from weft.errors import WeftError
from weft.isa.launch_limits import MOST_SIZE
from weft.launch import arrays
from weft.mlir import cast, ir, operations
from weft.reference import Array
from weft.system import processes
from weft.tools import epilogue_values
from weft.tools.values import drawn, integer_limits

DEFAULT_SIZE = 256
Shape = tuple[int, int, int]
_UNLESS_GIVEN = "unless each argument is given by --arg, such as --arg 0=random:2x64x64"


def shape_of(text: str) -> Shape:
    """The sizes in `MxNxK`. Raises WeftError for any other text."""
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and 0 < int(p) <= MOST_SIZE for p in parts):
        raise WeftError(
            f"--shape expects MxNxK, three sizes from 1 to 2**31 - 1 (256x256x64, say), got '{text}'"
        )
    m, n, k = map(int, parts)
    return m, n, k


def check_shape(op: MatmulOp, shape: Sequence[int | None]) -> None:
    """Raises WeftError for other sizes than those in a product's types."""
    for name, fixed, asked in zip("MNK", op.static_mnk, shape, strict=True):
        if fixed and asked and fixed != asked:
            raise refuse(op, f"{name} must be {fixed}, as in its types, got {asked} in --shape")


@dataclass(frozen=True)
class Product:
    """One product: what the op in the source specifies, and the kernel argument that each operand is."""

    module: ir.Module  # an operation does not keep its module alive, and dies with it
    op: MatmulOp
    m: int
    n: int
    k: int
    argument_numbers: dict[str, int]  # A, B, D, and C, bias and residual where they are given

    @classmethod
    def of(cls, module: ir.Module, name: str, shape: Shape | None) -> "Product":
        """A module's only product, in sizes of `shape` where its types leave them open. Raises WeftError."""
        products = operations(module, MatmulOp)
        if not products:
            raise WeftError(
                f"{name} has no tile.matmul: weft run checks a product (weft compile takes any kernel)"
            )
        op = products[0]
        if len(products) > 1:
            raise refuse(products[1], "must be the only product with weft run")
        taken = {"alpha", *(BLOCK_SCALES if op.types.scale else ())}
        if other := next((role for role in op.roles if not ROLES[role].is_added and role not in taken), None):
            raise refuse(op, f"must not have an operand '{other}' {_UNLESS_GIVEN}")
        if op.d.type.rank != 2:
            raise refuse(op, f"must not be a batch {_UNLESS_GIVEN}")
        for store in op.needs.stores[:1]:
            raise refuse(store, f"must not be in the epilogue {_UNLESS_GIVEN}")
        operands = {"A": op.a, "B": op.b, "D": op.d}
        operands |= {title(role): value for role, value in op.roles.items()}
        if each := next((load for load in op.needs.loads if load.is_of_each), None):
            raise refuse(each, f"must not load from a batch {_UNLESS_GIVEN}")
        operands |= {_loaded(load): load.source for load in op.needs.loads} | _numbers(op)
        argument_numbers = {}
        for role, value in operands.items():
            argument = cast(ir.BlockArgument, value)
            if argument is None:
                raise refuse(op, f"expects {role} to be a function's argument, so that weft run can pass it")
            argument_numbers[role] = argument.arg_number
        if op.function is not None:
            epilogue_values.check(op.function)
        static = op.static_mnk
        check_shape(op, shape or static)
        m, n, k = (fixed or asked for fixed, asked in zip(static, shape or (DEFAULT_SIZE,) * 3, strict=True))
        return cls(module, op, m, n, k, argument_numbers)

    @property
    def _attributes(self) -> dict[str, Any]:
        named = ("transpose_a", "transpose_b", "alpha", "beta", "activation", "accumulate", "bit_op")
        return {name: self.op.attribute(name) for name in named}

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    def __str__(self) -> str:
        attributes = self._attributes
        kinds = {
            role: str(value.type.element_type) for role, value in zip("ABD", self.op.operands, strict=False)
        }
        b = f"B[{self.n},{self.k}]ᵀ" if attributes["transpose_b"] else f"B[{self.k},{self.n}]"
        scaled = "" if attributes["alpha"] == 1.0 else f"{attributes['alpha']:g} * "
        scaled += "alpha * " if "alpha" in self.argument_numbers else ""
        added = f" + {attributes['beta']:g} * {self._added}" if attributes["beta"] else ""
        added += " + bias" if "bias" in self.argument_numbers else ""
        a = f"A[{self.k},{self.m}]ᵀ" if attributes["transpose_a"] else f"A[{self.m},{self.k}]"
        d = f"D[{self.m},{self.n}]"
        text = f"{scaled}{a} {kinds['A']} * {b} {kinds['B']}{added}"
        text = f"{attributes['activation']}({text})" if attributes["activation"] else text
        text = text if self.op.function is None else f"epilogue({text})"
        return f"{d} {kinds['D']} = {text}{' + residual' if 'residual' in self.argument_numbers else ''}"

    @property
    def _added(self) -> str:
        """What beta scales."""
        return "C" if "C" in self.argument_numbers else "D"

    @property
    def _extents(self) -> dict[str, str]:
        """What each operand's sizes are, as letters."""
        attributes = self._attributes
        axes = {
            "A": "km" if attributes["transpose_a"] else "mk",
            "B": "nk" if attributes["transpose_b"] else "kn",
        }
        loaded = {_loaded(load): load.axes.lower() for load in self.op.needs.loads}
        return axes | dict.fromkeys(("C", "D", "residual"), "mn") | {"bias": "n"} | loaded

    @property
    def _scale_sizes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of the block scales, and of alpha."""
        sizes = extents(self.m, self.n, self.k, None, ceil_div)
        types = self.op.types
        element = WORD if types.words else types.scale
        roles = *(BLOCK_SCALES if types.scale else ()), "alpha"
        return {
            role: tuple(sizes[name] for name in role_of(role, element, types.words).sizes) for role in roles
        }

    def sized_by(self, shapes: Mapping[int, tuple[int, ...]]) -> "Product":
        """The product of arrays of these shapes, by argument, where its types leave its sizes open."""
        sizes: dict[str, int] = {}
        for role, number in self.argument_numbers.items():
            letters = self._extents.get(role, "")
            if letters and len(shapes.get(number, ())) == len(letters):
                sizes |= dict(zip(letters, shapes[number], strict=True))
        fixed = dict(zip("mnk", self.op.static_mnk, strict=True))
        m, n, k = (fixed[axis] or sizes.get(axis, getattr(self, axis)) for axis in "mnk")
        return replace(self, m=m, n=n, k=k)

    def operands(self, launch: Launch, seed: int, passed: Mapping[int, Array] | None = None) -> list[Array]:
        """An array, of a number one without dimensions, for each argument that isn't `passed`: random
        numbers, or NaN in all that the kernel must not read.
        """
        sizes = {role: tuple(getattr(self, x) for x in axes) or (1,) for role, axes in self._extents.items()}
        sizes |= self._scale_sizes | dict.fromkeys(_numbers(self.op), ())
        read = {"A", "B", "bias", "residual", "alpha", *BLOCK_SCALES, *_numbers(self.op)}
        read.update(map(_loaded, self.op.needs.loads))
        if self._attributes["beta"]:
            read.add(self._added)
        generator = np.random.default_rng(seed)
        wanted = []
        for number, argument in enumerate(launch.arguments):
            roles = [role for role, each in self.argument_numbers.items() if each == number]
            if not roles or not isinstance(argument, MemrefArgument | ScalarArgument):
                raise refuse(self.op, f"must use argument {number} of its function with weft run")
            if len({sizes[role] for role in roles}) > 1:
                shapes = " and ".join(f"{r} ({'x'.join(map(str, sizes[r]))})" for r in roles)
                raise refuse(self.op, f"has one matrix as {shapes}: pick a --shape where they agree")
            scales = roles[0] in BLOCK_SCALES
            wanted.append((argument, sizes[roles[0]], generator if read & set(roles) else None, scales))
        self._check_memory(sum(s[0] * (_pitch(a, s[1]) - s[1]) for a, s, *_ in wanted if len(s) == 2))
        for number, array in (passed or {}).items():
            if np.shape(array) != wanted[number][1]:
                shape, got = ("x".join(map(str, s)) for s in (wanted[number][1], array.shape))
                raise refuse(self.op, f"expects argument {number} of {shape}, got an array of {got}")
        arrays = dict(passed or {})
        return [arrays[i] if i in arrays else _array(*each) for i, each in enumerate(wanted)]

    def expected(self, operands: list[Array]) -> reference.Expected:
        """What must come out of these operands, before the kernel ran on them."""
        by_role = {role: operands[number] for role, number in self.argument_numbers.items()}
        added = by_role[self._added] if self._attributes["beta"] else None
        if self.op.types.words:
            by_role |= {role: self._tiled(by_role[role]) for role in BLOCK_SCALES}
        outer = {load.source: by_role[_loaded(load)] for load in self.op.needs.loads}
        for name, number in _numbers(self.op).items():
            outer[number] = np.asarray(by_role[name], epilogue_values.number_type(str(number.type)))
        alpha = np.float32(self._attributes["alpha"]) * by_role.get("alpha", np.float32(1))
        return reference.product(
            by_role["A"],
            by_role["B"],
            added,
            bias=by_role.get("bias"),
            residual=by_role.get("residual"),
            scale_a=by_role.get("scale_a"),
            scale_b=by_role.get("scale_b"),
            **self._attributes | {"alpha": alpha},
            dtype=by_role["D"].dtype,
            epilogue=None
            if (function := self.op.function) is None
            else partial(epilogue_values.results, function, outer),
        )

    def _tiled(self, words: Array) -> Array:
        """Block scales that come as words, in the 128x4 layout."""
        block, scaling = self.op.types.words, self.op.types.block_scaling
        assert scaling is not None, self.op
        in_bytes = np.ascontiguousarray(words.T).view(np.uint8)[:, : ceil_div(self.k, block)]
        scales = in_bytes.view(arrays.numpy_dtype(self.op.types.scale))
        each = np.repeat(scales, block // scaling.group, axis=1)[:, : ceil_div(self.k, scaling.group)]
        return reference.tiled_scales(each)

    def _check_memory(self, padding: int) -> None:
        """Raises WeftError where the machine hasn't the memory; `padding` counts elements between rows."""
        # In float64, with magnitudes and temporaries: asking for more would have the system kill the process.
        needed = 24 * (self.m * self.k + self.k * self.n) + 64 * self.m * self.n + 8 * padding
        present = processes.memory_bytes()
        if present is not None and needed > present:
            sizes = f"{self.m}x{self.n}x{self.k}"
            raise WeftError(
                f"checking {sizes} needs {needed >> 30} GiB of memory, and this machine has {present >> 30}"
            )


def _loaded(load: LoadElementOp) -> str:
    """The name of what an epilogue loads, among operands by their roles."""
    return f"{load.source.get_name()}[{load.axes}]"


def _numbers(op: MatmulOp) -> dict[str, ir.Value]:
    """The numbers with which an epilogue computes that are arguments of the function around it."""
    if (function := op.function) is None:
        return {}
    used = [value for each in function.block.operations for value in each.operation.operands]
    return {
        value.get_name(): value
        for value in used
        if isinstance(value.owner, ir.Block)
        and value.owner != function.block
        and not isinstance(value.type, ir.MemRefType)
    }


def _pitch(argument: MemrefArgument | ScalarArgument, columns: int) -> int:
    """The elements from one row to the next: as many as the type wants."""
    assert isinstance(argument, MemrefArgument), argument
    return max(argument.strides[0] or columns, columns)


def _array(
    argument: MemrefArgument | ScalarArgument,
    shape: tuple[int, ...],
    generator: np.random.Generator | None,
    scales: bool = False,
) -> Array:
    """An array of the argument's type: of integers from all of up to 8 bits, of normal numbers, or of powers
    of two for block scales, four in each word of i32.
    """
    if isinstance(argument, ScalarArgument):
        assert generator is not None, argument
        return np.asarray(drawn(generator, (1,), epilogue_values.number_type(argument.dtype))[0])
    columns, dtype = shape[-1], arrays.numpy_dtype(argument.dtype)
    whole = shape if len(shape) == 1 else (shape[0], _pitch(argument, columns))
    if generator is None:
        limits = integer_limits(dtype)
        return np.full(whole, limits[0] if limits else np.nan, dtype)[..., :columns]
    if scales and argument.dtype == WORD:
        powers = np.exp2(generator.integers(-3, 4, (*whole, 4))).astype(arrays.numpy_dtype(SCALE_OF_WORDS))
        return powers.view(dtype)[..., :columns, 0]
    if scales:
        return np.exp2(generator.integers(-3, 4, whole)).astype(dtype)[..., :columns]
    return drawn(generator, whole, dtype)[..., :columns]
