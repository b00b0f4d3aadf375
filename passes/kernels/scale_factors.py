"""The factors of the sums of a K block, where lanes read the float32 scales of A and B themselves, and the
addition of such a block.
"""

from weft.dialects.product_types import PROMOTED
from weft.dialects.schedule import AnySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit, fragment_registers
from weft.passes.kernels.matrices import member, size


def add_block(total: ir.Value, products: ir.Value, factors: ir.Value | None) -> ir.Value:
    """A lane's sums, and its products of a K block times their factors, if there are some."""
    return arith.addf(total, products) if factors is None else vector.fma(products, factors, total)


class LaneScales:
    """The scales of a lane's sums of a fragment of type `kind` at (`row`, `column`) of product `index` of a
    batch. Its columns share one scale of B unless each has its own.
    """

    def __init__(
        self,
        op: MatmulOp,
        schedule: AnySchedule,
        kind: ir.Type,
        index: ir.Value | None,
        row: ir.Value,
        column: ir.Value,
    ) -> None:
        self._kind, self._of_columns = kind, op.types.scale_columns
        self._scales = [member(op.role(f"scale_{name}"), index) for name in "ab"]
        digits = fragment_registers.lane_digits(kind.layout, kind.shape)
        assert digits is not None
        lane = [fragment_registers.lane_coordinate(each) for each in digits]
        self._row, self._column = schedule.swapped(emit.add(row, lane[0]), emit.add(column, lane[1]))
        self._inside = [schedule.swapped(*each) for each in fragment_registers.coordinates(kind)]
        self._rows = list(dict.fromkeys(row for row, _ in self._inside))
        self._columns = list(dict.fromkeys(column for _, column in self._inside))

    def load(self, block: ir.Value | int) -> list[ir.Value]:
        """The scales of a K block: those of rows, then those of columns, or the one of all. Beyond the last
        row, column or K block, where there are no scales, those of the last.
        """
        of_a, of_b = self._scales
        loaded = [_element(of_a, block, emit.add(self._row, each)) for each in self._rows]
        if self._of_columns:
            return loaded + [_element(of_b, block, emit.add(self._column, each)) for each in self._columns]
        return [*loaded, _element(of_b, emit.div(self._column, PROMOTED), block)]

    def of_block(self, block: ir.Value | int) -> ir.Value:
        """The vector of factors of a K block, whose scales are read here."""
        return self.factors(self.load(block))

    def factors(self, loaded: list[ir.Value]) -> ir.Value:
        """The vector of what a lane's sums of a K block are multiplied by."""
        rows, of_b = dict(zip(self._rows, loaded, strict=False)), loaded[len(self._rows) :]
        if self._of_columns:
            columns = dict(zip(self._columns, of_b, strict=True))
            factors = [arith.mulf(rows[row], columns[column]) for row, column in self._inside]
            return vector.from_elements(self._kind.lane_type, factors)
        products = {each: arith.mulf(scale, *of_b) for each, scale in rows.items()}
        return vector.from_elements(self._kind.lane_type, [products[row] for row, _ in self._inside])


def _element(matrix: ir.Value, row: ir.Value | int, column: ir.Value | int) -> ir.Value:
    """The element at (`row`, `column`) of a matrix, or the nearest one."""
    nearest = (emit.minimum(at, emit.sub(size(matrix, i), 1)) for i, at in enumerate((row, column)))
    return memref.load(matrix, [emit.as_index(at) for at in nearest])
