"""The kernel that `--expand-matmul` writes for a schedule of `wmma`: that of `mma.sync` with tiles in padded
rows. PTX doesn't specify which lane holds which sum, so the epilogue reads the sums from shared memory.
"""

from dataclasses import dataclass, field
from typing import Any

from weft.dialects import tile, wmma
from weft.dialects.schedule import wmma as schedules
from weft.dialects.schedule.wmma import ATOM, PADDING
from weft.dialects.tile import BufferType, FragmentType, MatmulOp
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.layout import Layout
from weft.mlir import gpu, ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit
from weft.passes.builders.tf32 import to_tf32
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.fragments import PAIR, widened
from weft.passes.kernels.matrices import element_bytes
from weft.passes.kernels.mma_kernel import MmaKernel, Operand

_RUN = 2  # sums of a row that a lane holds together
_WORD = 4  # bytes


@dataclass
class _Operand(Operand):
    """A or B in padded rows, of which `wmma.load` reads fragments."""

    @property
    def buffer_type(self) -> ir.Type:
        """The type of the stages: padded rows, contiguous as in global memory."""
        rows, columns = (self.extent, self.block_k) if self.k_major else (self.block_k, self.extent)
        layout = f"S[({self.stages},{rows},{columns}):({rows * self._pitch},{self._pitch},1)]"
        return BufferType.of((self.stages, rows, columns), self.element, layout)

    @property
    def _pitch(self) -> int:
        """Elements from one row to the next."""
        return self.width + PADDING // element_bytes(self.matrix)

    @property
    def width(self) -> int:
        """Elements of a row in a stage."""
        return self.block_k if self.k_major else self.extent

    @property
    def alternates(self) -> bool:
        """Never: `wmma.load` transposes elements of any width."""
        return False

    def registers(self, stage: ir.Value, number: int, k: int, **form: str) -> list[ir.Value]:
        """The registers of an instruction's fragment, by its number in the warp's tile, from depth `k` on."""
        start = emit.add(self.inside, number * ATOM)
        row, column = (start, k) if self.k_major else (k, start)
        at = emit.mul(emit.add(emit.mul(row, self._pitch), column), element_bytes(self.matrix))
        address = addresses.offset(tile.address(stage), at)
        fragment = self.atom.name
        layout = "row" if self.k_major == (fragment == "a") else "col"
        loaded = wmma.load(
            address=address, stride=emit.value(self._pitch), fragment=fragment, layout=layout, **form
        )
        return [_cast(to_tf32(_cast(each, self.element)), each.type) for each in _members(loaded, self.atom)]


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point."""
    WmmaKernel.of(op).emit()


@dataclass
class WmmaKernel(MmaKernel):
    """One tile of D for each CTA. Sums are a vector of the registers of all fragments, row by row."""

    a: _Operand
    b: _Operand
    scratch: ir.Value = field(init=False)  # in which a warp exchanges its sums

    operand = _Operand

    @staticmethod
    def form_of(op: MatmulOp) -> Any:
        return schedules.form(op.types)

    @staticmethod
    def run_of(op: MatmulOp, rows: int, columns: int) -> int:
        return PAIR

    def _allocate(self) -> None:
        """Builds the stages, and the memory for the sums over them."""
        super()._allocate()
        columns = self.schedule.warp_tile[1] // self._packed
        warps, pitch = self.schedule.threads // LANES, columns + PADDING // _WORD
        layout = f"S[({warps},{ATOM},{columns}):({ATOM * pitch},{pitch},1)]"
        kind = BufferType.of((warps, ATOM, columns), self._word, layout)
        self.scratch = tile.alloc(kind, over=self.a.buffer)

    @property
    def _packed(self) -> int:
        """Sums in a word."""
        return 2 if self.op.types.half_sums else 1

    @property
    def _word(self) -> ir.Type:
        """The type of a word of sums, as loops carry it and shared memory holds it."""
        return emit.i32() if self.op.types.half_sums else ir.Type.parse(self.op.types.sums)

    @property
    def _atoms(self) -> tuple[int, int]:
        """Instructions along the rows and columns of a warp's tile."""
        rows, columns = self.schedule.warp_tile
        return rows // ATOM, columns // ATOM

    def _zero(self) -> ir.Value:
        down, across = self._atoms
        count = down * across * self.form.operands[0].count
        return emit.constant(ir.VectorType.get([count], self._word), 0)

    @property
    def _loads_ahead(self) -> bool:
        """Never."""
        return False

    def _load(self, stages: list[ir.Value], k: int) -> list[ir.Value]:
        """The registers of a warp's operands at depth `k` of a stage: those of A by rows, and those of B."""
        form = self.form
        return [
            register
            for operand, stage, count, kind in zip(
                (self.a, self.b), stages, self._atoms, (form.a_type, form.b_type), strict=True
            )
            for number in range(count)
            for register in operand.registers(stage, number, k, shape=form.shape, type=kind)
        ]

    def _product(self, sums: ir.Value, operands: list[ir.Value]) -> ir.Value:
        """The sums and the products of one instruction's K."""
        form, (down, across) = self.form, self._atoms
        d, a, b, _ = form.operands
        totals, split = _groups(emit.elements(sums), d.count), down * a.count
        left, right = _groups(operands[:split], a.count), _groups(operands[split:], b.count)
        for i in range(down):
            for j in range(across):
                at = i * across + j
                c = [_cast(word, ir.Type.parse(d.type)) for word in totals[at]]
                product = wmma.mma(a=left[i], b=right[j], c=c, **vars(form))
                totals[at] = [_cast(member, self._word) for member in _members(product, d)]
        return emit.vector_of([register for group in totals for register in group])

    def _epilogue(self, accumulator: ir.Value, row: ir.Value, column: ir.Value, aligned: bool) -> None:
        """Exchanges the sums 16 rows at a time, finishes and stores them."""
        if self._asynchronous:
            nvvm.cp_async_wait_group(0)
        gpu.barrier()  # the stages become memory for sums
        (down, across), form = self._atoms, self.form
        part = tile.stage(self.scratch, emit.div(emit.thread(), LANES))
        address = tile.address(part)
        d, columns = form.operands[0], self.schedule.warp_tile[1]
        pitch = emit.value(columns + self._packed * (PADDING // _WORD))
        registers = [_cast(word, ir.Type.parse(d.type)) for word in emit.elements(accumulator)]
        sums, finisher = (
            _groups(registers, d.count),
            Finisher(self.op, self.tile.member, _RUN if aligned else 1),
        )
        for i in range(down):
            for j in range(across):
                wmma.store(
                    address=addresses.offset(address, _WORD // self._packed * ATOM * j),
                    d=sums[i * across + j],
                    stride=pitch,
                    shape=form.shape,
                    type=form.d_type,
                )
            nvvm.SyncWarpOp(emit.value(-1))
            run = _RUN // self._packed
            words = FragmentType.of((ATOM, columns // self._packed), self._word, self._band(run))
            loaded = tile.load(part, emit.value(0), emit.value(0), words, vector_bytes=_WORD * run)
            nvvm.SyncWarpOp(emit.value(-1))
            at = emit.add(row, i * ATOM)
            finisher.store(self._unpacked(loaded), at, column)

    def _unpacked(self, loaded: ir.Value) -> ir.Value:
        """The words of 16 rows as sums."""
        if not self.op.types.half_sums:
            return loaded
        half, shape = ir.F16Type.get(), (ATOM, self.schedule.warp_tile[1])
        kind = FragmentType.of(shape, half, self._band(_RUN))
        return widened(tile.from_lane(vector.bitcast(kind.lane_type, tile.to_lane(loaded)), kind))

    def _band(self, run: int) -> Layout:
        """16 rows of a warp's sums as the epilogue has them: lanes hold `run` elements of a row together."""
        columns = self.schedule.warp_tile[1]
        lanes = min(LANES, columns // _RUN)
        panels, at_once = columns // (_RUN * lanes), LANES // lanes
        digits = [
            (ATOM // at_once, str(panels * run)),
            (at_once, f"{lanes}@laneid"),
            (panels, str(run)),
            (lanes, "1@laneid"),
            (run, "1"),
        ]
        extents, strides = zip(*(digit for digit in digits if digit[0] > 1), strict=True)
        return Layout.parse(f"S[({','.join(map(str, extents))}):({','.join(strides)})]")


def _members(value: ir.Value, registers: Registers) -> list[ir.Value]:
    """The registers of a fragment, which a struct holds unless there is only one."""
    if registers.count == 1:
        return [value]
    kind = ir.Type.parse(registers.type)
    return [llvm.extractvalue(kind, value, [number]) for number in range(registers.count)]


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """The value as a register of another type."""
    return value if value.type == kind else llvm.bitcast(kind, value)


def _groups(values: list[ir.Value], count: int) -> list[list[ir.Value]]:
    """The values in lists of so many."""
    return [values[start : start + count] for start in range(0, len(values), count)]
