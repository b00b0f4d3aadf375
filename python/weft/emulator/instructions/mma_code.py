"""`mma.sync` by code of the host: where the operands of each warp are."""

from dataclasses import dataclass

import numpy as np

from weft.emulator.instructions.fragments import Fragment
from weft.emulator.reading.types import Array
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.product_code import Job, Numbers, Places, ProductKind, Run
from weft.isa.accumulation import Accumulation
from weft.isa.types import ELEMENT_TYPES

_LANES = 32
_WORD = 4


@dataclass(eq=False)
class _Room:
    """The registers of A and B of some warps, and their products. `places` are those that `jobs` has
    addresses of.
    """

    run: Run
    a: Array
    b: Array
    jobs: Numbers
    places: tuple[Places, ...]

    def __post_init__(self) -> None:
        self.address: int = self.jobs.ctypes.data


@dataclass(eq=False)
class Quick:
    """One instruction, whose operands are in these registers."""

    kind: ProductKind
    a: Fragment
    b: Fragment
    c: Fragment
    d: Fragment

    def run(self, lanes: Lanes) -> bool:
        """Computes the products of whole warps. False, and nothing has changed, if the interpreter must do
        it.
        """
        if lanes.wave.products is None or lanes.mask is not None:
            return False
        room = lanes.wave.jobs.get((self, lanes.warps))
        if room is None:
            room = self._room(lanes)
            if room is None:
                return False
            lanes.wave.jobs[self, lanes.warps] = room
        np.stack([lanes.read(slot) for slot in self.a.slots], out=room.a)
        np.stack([lanes.read(slot) for slot in self.b.slots], out=room.b)
        total = np.stack([lanes.read(slot) for slot in self.c.slots])
        room.jobs[:, Job.D] = _firsts(total, lanes.warps)
        room.run(room.address, lanes.warps, 1)
        for slot, register in zip(self.d.slots, total, strict=True):
            lanes.write(slot, register)
        return True

    def _room(self, lanes: Lanes) -> _Room | None:
        wave, warps = lanes.wave, lanes.warps
        if wave.products is None or (self.kind.how is not None and wave.launch.arithmetic != "hardware"):
            return None
        run = wave.products.product(self.kind, warps)
        if run is None:
            return None
        a, b = (np.zeros((len(each.slots), warps, _LANES), np.uint32) for each in (self.a, self.b))
        jobs = np.zeros((warps, len(Job)), np.int64)
        places = tuple(each.places(warps, 1) for each in (self.a, self.b, self.d))
        indices = Job.A_INDEX, Job.B_INDEX, Job.D_INDEX
        jobs[:, indices] = [each.address for each in places]
        jobs[:, Job.A], jobs[:, Job.B], jobs[:, Job.KEEP] = _firsts(a, warps), _firsts(b, warps), 1
        return _Room(run, a, b, jobs, places)


def _firsts(registers: Array, warps: int) -> Numbers:
    """The address of each warp's first register."""
    firsts: Numbers = registers.ctypes.data + _WORD * _LANES * np.arange(warps)
    return firsts


def quick(
    types: tuple[str, str, str, str],
    operands: tuple[Fragment, Fragment, Fragment, Fragment],
    bits: tuple[int, int],
    how: Accumulation,
    *,
    satfinite: bool,
) -> Quick | None:
    """The instruction with operands D, A, B and C, if there can be code for it."""
    d, a, b, c = operands
    element = ELEMENT_TYPES[types[0]]
    matrices = all(len(each.shape) == 2 for each in operands)
    unpacked = any(name == "e2m1" and each != 4 for name, each in zip(types, bits, strict=False))
    if not matrices or unpacked or element.bits > _LANES or element.bits == 1 or types[2] != types[3]:
        return None
    (m, k), n = a.shape, b.shape[1]
    rule = how if element.kind == "float" else None
    kind = ProductKind((*types[:2], types[3]), bits, m, n, k, rule, satfinite=satfinite)
    return Quick(kind, a, b, c, d)
