"""Accesses to memory that no other thread writes, in code of this host: parameters, constants, local."""

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.compiled.accesses import LANES, AccessCode, limited
from weft.emulator.compiled.builder import I8, POINTER
from weft.emulator.compiled.state import Field


def fixed_access(module: ir.Module, space: str) -> None:
    """Adds `load_param` or `load_const`."""
    c = AccessCode(module, f"load_{space}")
    data, size, counter = {
        "param": (Field.PARAMS, Field.PARAMS_SIZE, Field.PARAM_BYTES),
        "const": (Field.CONST, Field.CONST_SIZE, Field.CONST_BYTES),
    }[space]
    total = c.variable(0)
    with c.loop(c.count) as index:
        c.set_run(c.warp(index), 0)
    with c.lanes() as (_, warp, lane):
        limited(c, c.field(size), c.load(warp, lane))
        c.add(total, 1)
    c.move(c.field(data, POINTER), loads=True)
    c.counted(total, counter)
    c.give(1)


def local_access(module: ir.Module, *, loads: bool) -> None:
    """Adds `load_local` or `store_local`."""
    c = AccessCode(module, "load_local" if loads else "store_local")
    size, total = c.field(Field.LOCAL_SIZE), c.variable(0)
    filled = c.field(Field.FILLED, POINTER)
    checked = c.is_("!=", c.field(Field.CHECKED), 0)
    with c.loop(c.count) as index:
        c.set_run(c.warp(index), 0)
    with c.lanes() as (index, warp, lane):
        address = c.load(warp, lane)
        limited(c, size, address)
        thread = c.b.add(c.b.mul(c.row(index), c.number(LANES)), lane)
        c.store(c.b.add(address, c.b.mul(thread, size)), warp, lane)
        c.add(total, 1)
    with c.when(checked), c.lanes() as (_, warp, lane), c.loop(c.bytes) as at:
        place = c.at(filled, c.b.add(c.load(warp, lane), at), I8)
        if loads:
            c.give_when(c.is_("==", c.b.load(place, typ=I8), 0), 0)
        else:
            c.b.store(c.number(1, I8), place)
    c.move(c.field(Field.LOCAL, POINTER), loads=loads)
    c.counted(total, Field.LOCAL_BYTES)
    c.give(1)


def add_own_accesses(module: ir.Module) -> None:
    """Adds the functions of these accesses."""
    for loads in (True, False):
        local_access(module, loads=loads)
    for space in ("param", "const"):
        fixed_access(module, space)
