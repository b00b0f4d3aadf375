"""Computes single elements of the tensors of a function, inside a kernel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft import mlir
from weft.dialects.op import refuse
from weft.isa.chips import LANES
from weft.mlir import arith, ir, memref, scf
from weft.passes.builders import emit
from weft.passes.plain import indices
from weft.passes.plain.indices import Number, Sizes, kept_dimensions, segment
from weft.passes.plain.reductions import ByLanes, Needed, needed

Coordinates = Sequence[Number]
_FLOATS = ("f64", "f32", "f16", "bf16")
_MOVES = ("arith.constant", "arith.select", "arith.bitcast")  # of elements of any type


class Elements:
    """The elements of a function's tensors. `arguments` has the kernel's arguments by the function's."""

    def __init__(self, arguments: Mapping[ir.Value, ir.Value]) -> None:
        self._scalars = {old: new for old, new in arguments.items() if not _is_shaped(old)}
        self._memory = {old: new for old, new in arguments.items() if _is_shaped(old)}
        self.sizes = Sizes(self._leaf, self._count, emit.add, indices.product)
        self._scopes: list[dict[object, ir.Value]] = [{}]

    def prepare(self, function: ir.OpView) -> None:
        """Computes what threads share: the numbers that aren't elements of tensors."""
        for view in function.body.blocks[0].operations:
            op = view.operation
            if op.name == "bufferization.to_tensor":
                self._memory[op.results[0]] = self._memory[op.operands[0]]
            elif op.name in ("tensor.dim", "memref.dim"):
                number = mlir.constant(op.operands[1])
                self._scalars[op.results[0]] = indices.value(self.sizes.of(op.operands[0], number))
            elif op.name == "tensor.extract":
                at = [self.scalar(each) for each in list(op.operands)[1:]]
                self._scalars[op.results[0]] = self.of(op.operands[0], at)
            elif op.results and not any(map(_is_shaped, (*op.operands, *op.results))):
                self._copy(op, self._scalars)

    def of(self, tensor: ir.Value, at: Coordinates) -> ir.Value:
        """The element of a tensor at these coordinates."""
        key = (tensor, *at)
        for scope in self._scopes:
            if key in scope:
                return scope[key]
        found = self._made(tensor, at)
        self._scopes[-1][key] = found
        return found

    def scalar(self, value: ir.Value) -> ir.Value | int:
        """A number of the function in the kernel."""
        if value not in self._scalars and not isinstance(value.owner, ir.Block):
            number = mlir.constant(value)
            if isinstance(number, int) and isinstance(value.type, ir.IndexType):
                return number
        if value not in self._scalars:
            raise refuse(_user(value), f"uses a number that a plain kernel doesn't have: {value.owner.name}")
        return self._scalars[value]

    def _count(self, value: ir.Value) -> Number:
        """A number of the function as an index."""
        number = self.scalar(value)
        if isinstance(number, int) or isinstance(number.type, ir.IndexType):
            return number
        return arith.index_cast(ir.IndexType.get(), number)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """In the block, elements are computed inside a region: nothing outside may use them."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _leaf(self, value: ir.Value, dimension: int) -> Number | None:
        buffer = self._memory.get(value)
        return None if buffer is None else memref.dim(buffer, indices.value(dimension))

    def _made(self, tensor: ir.Value, at: Coordinates) -> ir.Value:
        if tensor in self._memory:
            loaded = memref.load(self._memory[tensor], [indices.value(each) for each in at])
            return from_memory(loaded, tensor.type.element_type)
        op = tensor.owner
        with op.location:
            if op.name.startswith("linalg.") and len(op.regions) == 1:
                number = list(op.results).index(tensor)
                loops = _loops_at(op, number, at)
                if any(each is None for each in loops):
                    wanted = self._needed(op, number).results
                    firsts = [self._first(op, each, loops) for each in wanted]
                    sums = self._looped(op, loops, firsts, self._sums(op, number, loops))
                    return sums[wanted.index(number)]
                block = op.regions[0].blocks[0]
                values = self._body_values(list(block.arguments), list(op.operands), maps_of(op), loops)
                return self._body(block, values, loops)[number]
            if op.name not in _RULES:
                raise refuse(op.opview, "can't be computed in a plain kernel")
            return _RULES[op.name](self, op, at)

    def over_lanes(
        self, op: ir.OpView, number: int, at: Coordinates, lane: ir.Value, by: ByLanes
    ) -> ir.Value:
        """The element of a reduction's result, which the lanes of a warp compute together."""
        loops = _loops_at(op, number, at)
        body = self._sums(op, number, loops)
        (total,) = self._looped(op, loops, [by.neutral()], body, (lane, LANES))
        return by.combined(self._first(op, number, loops), by.over_lanes(total))

    def _first(self, op: ir.OpView, number: int, loops: Coordinates) -> ir.Value:
        """The first value of a reduction."""
        each = len(op.operands) - len(op.results) + number
        return self.of(op.operands[each], [indices.applied(x, loops) for x in maps_of(op)[each].results])

    def _needed(self, op: ir.OpView, number: int) -> Needed:
        return needed(op.regions[0].blocks[0], len(op.operands) - len(op.results), number)

    def _sums(
        self, op: ir.OpView, number: int, loops: Coordinates
    ) -> Callable[[Sequence[ir.Value]], list[ir.Value]]:
        """A function from the sums so far, of those that a result needs, to the next ones."""
        maps, operands, wanted = maps_of(op), list(op.operands), self._needed(op, number)
        inputs, block = len(operands) - len(op.results), op.regions[0].blocks[0]
        arguments = list(block.arguments)

        def body(sums: Sequence[ir.Value]) -> list[ir.Value]:
            values = self._body_values(arguments[:inputs], operands[:inputs], maps[:inputs], loops)
            values |= zip((arguments[inputs + each] for each in wanted.results), sums, strict=True)
            found = self._body(block, values, loops, wanted)
            return [found[each] for each in wanted.results]

        return body

    def _looped(
        self,
        op: ir.OpView,
        loops: list[Number],
        carried: list[ir.Value],
        body: Callable[[Sequence[ir.Value]], list[ir.Value]],
        last: tuple[Number, Number] = (0, 1),
    ) -> list[ir.Value]:
        """The values after loops over the dimensions that have no coordinate. `last` is where the innermost
        one begins, and its step.
        """
        inner = [loop for loop, coordinate in enumerate(loops) if coordinate is None]
        if not inner:
            return body(carried)
        first, step = last if len(inner) == 1 else (0, 1)
        end = indices.value(self.sizes.of(*indexed_by(op, inner[0])[0]))
        loop = scf.ForOp(indices.value(first), end, indices.value(step), carried)
        with ir.InsertionPoint(loop.body), self._scope():
            loops[inner[0]] = loop.induction_variable
            scf.yield_(self._looped(op, loops, list(loop.inner_iter_args), body, last))
        loops[inner[0]] = None
        return list(loop.results)

    def _body_values(
        self,
        arguments: Sequence[ir.Value],
        operands: Sequence[ir.Value],
        maps: Sequence[ir.AffineMap],
        loops: Coordinates,
    ) -> dict[ir.Value, Any]:
        """The elements of operands that a body uses."""
        values = {}
        for argument, operand, each in zip(arguments, operands, maps, strict=False):
            if any(True for _ in argument.uses):
                place = [indices.applied(x, loops) for x in each.results]
                shaped = _is_shaped(operand)
                values[argument] = self.of(operand, place) if shaped else self.scalar(operand)
        return values

    def _body(
        self, block: ir.Block, values: dict[ir.Value, Any], loops: Coordinates, wanted: Needed | None = None
    ) -> list[Any]:
        """The values that a body yields; None for those that aren't wanted."""
        for view in block.operations:
            op = view.operation
            if op.name in ("linalg.yield", "tensor.yield"):
                results = range(len(op.operands)) if wanted is None else wanted.results
                return [
                    self._in_body(each, values) if i in results else None
                    for i, each in enumerate(op.operands)
                ]
            if wanted is not None and op not in wanted.ops:
                continue
            with op.location if mlir.location(op.location) else ir.Location.current:
                self._body_operation(op, values, loops)
        raise refuse(block.owner.opview, "has a body without a result")

    def _body_operation(self, op: ir.Operation, values: dict[ir.Value, Any], loops: Coordinates) -> None:
        if op.name == "cf.assert":
            return  # no kernel stops where one fails
        if op.name == "linalg.index":
            values[op.results[0]] = indices.value(loops[op.attributes["dim"].value])
        elif op.name == "tensor.extract":
            at = [self._in_body(each, values) for each in list(op.operands)[1:]]
            values[op.results[0]] = self.of(op.operands[0], at)
        elif op.name == "tensor.dim":
            number = mlir.constant(op.operands[1])
            if number is None:
                raise refuse(op.opview, "must have a constant dimension in a plain kernel")
            values[op.results[0]] = indices.value(self.sizes.of(op.operands[0], number))
        elif any(map(_is_shaped, (*op.operands, *op.results))):
            raise refuse(op.opview, "can't be computed in a plain kernel")
        else:
            self._copy(op, values)

    def _in_body(self, value: ir.Value, values: Mapping[ir.Value, ir.Value]) -> ir.Value:
        if value in values:
            return values[value]
        found = self.scalar(value)
        return indices.value(found) if isinstance(found, int) else found

    def _copy(self, op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
        """Computes an operation on numbers."""
        if (other := _other_float(op)) is not None:
            legal = ", ".join(_FLOATS)
            raise refuse(op.opview, f"must have floats of {legal} in a plain kernel, got {other}")
        copy = op.clone()
        self._renamed(copy, values)
        values |= zip(op.results, copy.results, strict=True)

    def _renamed(self, copy: ir.OpView, values: Mapping[ir.Value, ir.Value]) -> None:
        inside = set[ir.Value]()
        for op in mlir.within(copy):
            for number, operand in enumerate(op.operands):
                if operand not in inside:
                    op.operands[number] = self._in_body(operand, values)
            inside.update(op.results)
            for region in op.regions:
                for block in region.blocks:
                    inside.update(block.arguments)

    def _constant(self, op: ir.OpView, _: Coordinates) -> ir.Value:
        number = op.attributes["value"]
        if not is_splat(number):
            raise refuse(op.opview, "must be the same number everywhere, or an argument of the function")
        return arith.constant(op.results[0].type.element_type, number.get_splat_value())

    def _undefined(self, op: ir.OpView, _: Coordinates) -> ir.Value:
        raise refuse(op.opview, "is read before it is written; fill it first")

    def _of_elements(self, op: ir.OpView, at: Coordinates) -> Number:
        kind = op.results[0].type
        number = indices.linear(at, list(kind.shape))
        values = [self.scalar(each) for each in op.operands]
        found = values[-1]
        for i, each in enumerate(values[:-1]):
            found = arith.select(emit.equal(number, i), each, found)
        return found

    def _generate(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        block = op.regions[0].blocks[0]
        values = {a: indices.value(c) for a, c in zip(block.arguments, at, strict=True)}
        return self._body(block, values, at)[0]

    def _expand(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        sizes = self.sizes.shape(op.results[0])
        small = [indices.linear([at[i] for i in g], [sizes[i] for i in g]) for g in groups(op)]
        return self.of(op.operands[0], small)

    def _collapse(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        sizes = self.sizes.shape(op.operands[0])
        large: list[Number] = [0] * len(sizes)
        for coordinate, group in zip(at, groups(op), strict=True):
            parts = indices.coordinates(coordinate, [sizes[i] for i in group])
            for dimension, part in zip(group, parts, strict=True):
                large[dimension] = part
        return self.of(op.operands[0], large)

    def _reshape(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        number = indices.linear(at, self.sizes.shape(op.results[0]))
        return self.of(op.operands[0], indices.coordinates(number, self.sizes.shape(op.operands[0])))

    def _slice(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        names = "offsets", "sizes", "strides"
        offsets, _, steps = (self.sizes.mixed(op, n, segment(op, i + 1)) for i, n in enumerate(names))
        large: list[Number] = [0] * len(offsets)
        for dimension, coordinate in zip(kept_dimensions(op, op.results[0].type), at, strict=True):
            large[dimension] = coordinate
        places = [
            emit.add(offset, emit.mul(step, each))
            for offset, step, each in zip(offsets, steps, large, strict=True)
        ]
        return self.of(op.operands[0], places)

    def _insert(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        source, target = op.operands[0], op.operands[1]
        names = "offsets", "sizes", "strides"
        offsets, sizes, steps = (self.sizes.mixed(op, n, segment(op, i + 2)) for i, n in enumerate(names))
        if any(not isinstance(step, int) or step != 1 for step in steps):
            raise refuse(op.opview, "must have strides of 1 in a plain kernel")
        moved = [emit.sub(coordinate, offset) for coordinate, offset in zip(at, offsets, strict=True)]
        kept = kept_dimensions(op, source.type)
        return self._either(
            self._all_within(moved, sizes),
            op.results[0].type.element_type,
            lambda: self.of(source, [moved[i] for i in kept]),
            lambda: self.of(target, at),
        )

    def _pad(self, op: ir.OpView, at: Coordinates) -> ir.Value:
        low = self.sizes.mixed(op, "low", segment(op, 1))
        moved = [emit.sub(coordinate, first) for coordinate, first in zip(at, low, strict=True)]
        block = op.regions[0].blocks[0]
        values = {a: indices.value(c) for a, c in zip(block.arguments, at, strict=True)}
        return self._either(
            self._all_within(moved, self.sizes.shape(op.operands[0])),
            op.results[0].type.element_type,
            lambda: self.of(op.operands[0], moved),
            lambda: self._body(block, values, at)[0],
        )

    def _all_within(self, at: Coordinates, sizes: Coordinates) -> Any:
        condition = None
        for coordinate, size in zip(at, sizes, strict=True):
            each = indices.within(coordinate, 0, size)
            condition = each if condition is None else arith.andi(condition, each)
        return condition

    def _joined(self, op: ir.OpView, parts: Sequence[ir.Value], at: Coordinates) -> ir.Value:
        dimension = op.attributes["dim"].value
        first, *rest = parts
        if not rest:
            return self.of(first, at)
        size = self.sizes.of(first, dimension)
        after = [*at[:dimension], emit.sub(at[dimension], size), *at[dimension + 1 :]]
        return self._either(
            emit.less(at[dimension], size),
            op.results[0].type.element_type,
            lambda: self.of(first, at),
            lambda: self._joined(op, rest, after),
        )

    def _either(
        self,
        condition: ir.Value,
        kind: ir.Type,
        then: Callable[[], ir.Value],
        otherwise: Callable[[], ir.Value],
    ) -> ir.Value:
        branch = scf.IfOp(condition, [kind], has_else=True)
        for block, value in ((branch.then_block, then), (branch.else_block, otherwise)):
            with ir.InsertionPoint(block), self._scope():
                scf.yield_([value()])
        return branch.results[0]


def _loops_at(op: ir.OpView, number: int, at: Coordinates) -> list[Number]:
    """The coordinates of an operation's loops for an element of its result; None for those that reduce."""
    maps = maps_of(op)
    loops: list[Number] = [None] * maps[-1].n_dims
    results = maps[len(maps) - len(op.results) + number].results
    for expression, coordinate in zip(results, at, strict=True):
        if (loop := mlir.cast(ir.AffineDimExpr, expression)) is not None:
            loops[loop.position] = coordinate
    return loops


def _user(value: ir.Value) -> ir.OpView:
    return next(iter(value.uses)).owner.opview


def groups(op: ir.OpView) -> list[list[int]]:
    """The groups of dimensions of an operation that reshapes."""
    return [[int(i.value) for i in group] for group in op.attributes["reassociation"]]


def is_splat(numbers: ir.Attribute) -> bool:
    """Whether a constant tensor is the same number everywhere."""
    return isinstance(numbers, ir.DenseElementsAttr) and bool(numbers.is_splat)


def maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of a linalg operation. Raises WeftError for one without."""
    maps = mlir.indexing_maps(op)
    if maps is None:
        raise refuse(op.opview, "has no indexing maps")
    return maps


def indexed_by(op: ir.Operation, loop: int) -> list[tuple[ir.Value, int]]:
    """The operands of a linalg operation whose dimensions a loop indexes, with these dimensions."""
    found = []
    for operand, each in zip(op.operands, maps_of(op), strict=True):
        for dimension, expression in enumerate(each.results):
            by = mlir.cast(ir.AffineDimExpr, expression)
            if by is not None and by.position == loop:
                found.append((operand, dimension))
    if not found:
        raise refuse(op.opview, f"has a loop d{loop} whose size no operand has")
    return found


def _is_shaped(value: ir.Value) -> bool:
    return isinstance(value.type, ir.ShapedType)


def _other_float(op: ir.Operation) -> ir.Type | None:
    """A type of floats with which an operation computes, but no kernel; None without one."""
    if op.name in _MOVES:
        return None
    kinds = (mlir.cast(ir.FloatType, value.type) for value in (*op.operands, *op.results))
    return next((kind for kind in kinds if kind is not None and str(kind) not in _FLOATS), None)


def memory_type(kind: ir.Type) -> ir.Type:
    """The element type in memory: an i1 takes a byte, and an index 64 bits."""
    if isinstance(kind, ir.IndexType):
        return ir.IntegerType.get_signless(64)
    return ir.IntegerType.get_signless(8) if str(kind) == "i1" else kind


def from_memory(value: ir.Value, kind: ir.Type) -> ir.Value:
    """An element of memory as the number it is."""
    if value.type == kind:
        return value
    if isinstance(kind, ir.IndexType):
        return arith.index_cast(kind, value)
    zero = arith.constant(value.type, 0)
    return arith.cmpi(arith.CmpIPredicate.ne, value, zero)


def to_memory(value: ir.Value) -> ir.Value:
    """The inverse of `from_memory`."""
    kind = memory_type(value.type)
    if value.type == kind:
        return value
    return arith.index_cast(kind, value) if isinstance(value.type, ir.IndexType) else arith.extui(kind, value)


_RULES: dict[str, Callable[[Elements, ir.OpView, Coordinates], Number]] = {
    "arith.constant": Elements._constant,
    "tensor.empty": Elements._undefined,
    "bufferization.alloc_tensor": Elements._undefined,
    "tensor.cast": lambda elements, op, at: elements.of(op.operands[0], at),
    "tensor.splat": lambda elements, op, _: elements.scalar(op.operands[0]),
    "tensor.from_elements": Elements._of_elements,
    "tensor.generate": Elements._generate,
    "tensor.expand_shape": Elements._expand,
    "tensor.collapse_shape": Elements._collapse,
    "tensor.reshape": Elements._reshape,
    "tensor.extract_slice": Elements._slice,
    "tensor.insert_slice": Elements._insert,
    "tensor.pad": Elements._pad,
    "tensor.concat": lambda elements, op, at: elements._joined(op, list(op.operands), at),
}

COMPUTED = frozenset(_RULES)
"""The operations, besides those of linalg, whose elements kernels compute."""
