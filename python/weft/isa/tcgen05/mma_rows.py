"""Which forms of `tcgen05.mma` are legal, and why others aren't; `mma_forms` spells them (PTX ISA,
"TensorCore 5th Generation Matrix Multiply and accumulate Operations").

M, N, K and the element types are in the instruction descriptor, at run time: `descriptors` checks
them.
"""

from collections.abc import Iterator
from itertools import product
from typing import TypeVar

from weft.isa.chips import ChipSet, describe, only
from weft.isa.family import Support, Verdict, must_be
from weft.isa.tcgen05.family import ALL, ARCH_SPECIFIC, CTA_GROUPS, SM_107, Tcgen05Family
from weft.isa.tcgen05.mma_forms import (
    COLLECTOR_BUFFERS,
    COLLECTOR_USES,
    SCALED_KINDS,
    Mma,
    MmaBlockScale,
    MmaSp,
    MmaSpBlockScale,
    MmaWs,
    MmaWsSp,
)
from weft.isa.unpublished import Unpublished

I8_CHIPS = only("sm_100a", "sm_110a")
_SCALE_INPUT_CHIPS = ALL - only("sm_110a", "sm_110f")
_SCALE_INPUT_KINDS = ("f16", "tf32")

#  kind     chips   PTX
_KINDS: tuple[tuple[str, ChipSet, tuple[int, int]], ...] = (
    ("f16", ALL, (8, 6)),
    ("tf32", ALL, (8, 6)),
    ("f8f6f4", ALL, (8, 6)),
    ("i8", I8_CHIPS, (8, 6)),
    ("ti16", SM_107, (9, 4)),
)

#  kind       scale_vec   dense          sparse         PTX
_BLOCK_SCALE: tuple[tuple[str, str, ChipSet, ChipSet, tuple[int, int]], ...] = (
    ("mxf8f6f4", "", ALL, ALL, (8, 6)),
    ("mxf8f6f4", "1X", ARCH_SPECIFIC, ARCH_SPECIFIC, (8, 6)),
    ("mxf8f6f4", "block32", ALL, ALL, (8, 8)),
    ("mxf4", "", ALL, ARCH_SPECIFIC, (8, 6)),
    ("mxf4", "2X", ARCH_SPECIFIC, ARCH_SPECIFIC, (8, 6)),
    ("mxf4", "block32", ALL, ARCH_SPECIFIC, (8, 8)),
    ("mxf4nvf4", "2X", ARCH_SPECIFIC, ARCH_SPECIFIC, (8, 7)),
    ("mxf4nvf4", "4X", ARCH_SPECIFIC, ARCH_SPECIFIC, (8, 7)),
    ("mxf4nvf4", "block16", ALL, ARCH_SPECIFIC, (8, 8)),
    ("mxf4nvf4", "block32", ALL, ARCH_SPECIFIC, (8, 8)),
)

PLAIN_KINDS = tuple(dict.fromkeys(kind for kind, *_ in _KINDS))
_FP4_KINDS = ("mxf4", "mxf4nvf4")
_LUT_KINDS = ("f8f6f4", "mxf8f6f4")
_LUT_B = "lut::b"
_SHIFTED_USES = ("discard", "lastuse")
_MASK_REGISTERS_PER_CTA = 4

D = TypeVar("D", bound=Mma)
B = TypeVar("B", bound=MmaBlockScale)
W = TypeVar("W", bound=MmaWs)


def _sources() -> Iterator[tuple[str, str, bool]]:
    """Where A is, how its collector is used, and whether A is shifted."""
    for memory, use in product(("shared", "tensor"), COLLECTOR_USES):
        yield memory, use, False
    for use in _SHIFTED_USES:
        yield "tensor", use, True


def _added(kind: str, sparse: bool, ashift: bool) -> Iterator[tuple[str, str, ChipSet, tuple[int, int]]]:
    """Collector of B and decompression of B, which sm_107 brought; the chips, and the PTX version."""
    yield "", "", ALL, (8, 6)
    for use in COLLECTOR_USES:
        yield use, "", SM_107, (9, 4)
    if kind in _LUT_KINDS and not sparse and not ashift:
        for use in ("", *COLLECTOR_USES):
            yield use, _LUT_B, SM_107, (9, 4)


def _mma_forms(form: type[D]) -> Iterator[tuple[D, Support]]:
    for (kind, kind_chips, kind_ptx), group, (a, use, ashift) in product(_KINDS, CTA_GROUPS, _sources()):
        scales = (False, True) if kind in _SCALE_INPUT_KINDS else (False,)
        lanes = (0, _MASK_REGISTERS_PER_CTA * group)
        for mask, scale, added in product(lanes, scales, _added(kind, form.sparse, ashift)):
            collector_b, decompress, chips, ptx = added
            chips &= kind_chips & (_SCALE_INPUT_CHIPS if scale else ALL)
            if chips:
                yield (
                    form(kind, group, a, use, ashift, mask, scale, collector_b, decompress),
                    Support(chips, max(kind_ptx, ptx)),
                )


def _block_scale_forms(form: type[B]) -> Iterator[tuple[B, Support]]:
    for (kind, scale_vec, dense, sparse, kind_ptx), group in product(_BLOCK_SCALE, CTA_GROUPS):
        for (a, use, ashift), added in product(_sources(), _added(kind, form.sparse, False)):
            collector_b, decompress, chips, ptx = added
            if not ashift:
                yield (
                    form(kind, group, scale_vec, a, use, ashift, collector_b, decompress),
                    Support(chips & (sparse if form.sparse else dense), max(kind_ptx, ptx)),
                )


def _ws_forms(form: type[W]) -> Iterator[tuple[W, Support]]:
    axes = (("shared", "tensor"), COLLECTOR_BUFFERS, COLLECTOR_USES, (False, True))
    for (kind, chips, ptx), (a, buffer, use, mask) in product(_KINDS, product(*axes)):
        yield form(kind, a, buffer, use, mask), Support(chips, ptx)


def scale_vecs(kind: str) -> tuple[str, ...]:
    """The scale vector sizes that a kind has; "" is the kind's own."""
    return tuple(scale_vec for name, scale_vec, *_ in _BLOCK_SCALE if name == kind)


def _spelled(scale_vec: str) -> str:
    return f"scale_vec::{scale_vec}" if scale_vec.endswith("X") else scale_vec or "none"


def _needs_block_scale(form: Mma) -> Verdict | None:
    if form.kind not in SCALED_KINDS:
        return None
    return Verdict(
        "block-scale",
        f"kind {form.kind} needs .block_scale: without it the kind must be one of {', '.join(PLAIN_KINDS)}",
    )


def _no_block_scale(form: MmaBlockScale) -> Verdict | None:
    if form.kind not in PLAIN_KINDS:
        return None
    return Verdict(
        "block-scale",
        f"kind {form.kind} has no .block_scale: with it the kind must be one of {', '.join(SCALED_KINDS)}",
    )


def _scale_vec(form: MmaBlockScale) -> Verdict | None:
    legal = scale_vecs(form.kind)
    if not legal or form.scale_vec in legal:
        return None
    reason = must_be("scale_vec", map(_spelled, legal), _spelled(form.scale_vec), f" for kind {form.kind}")
    return Verdict("scale-vec", reason)


def _scale_vec_chip(form: MmaBlockScale, chip: str) -> Verdict | None:
    if not form.scale_vec.endswith("X") or chip in ARCH_SPECIFIC:
        return None
    return Verdict(
        "scale-vec-target",
        f"{_spelled(form.scale_vec)} is legal on {describe(ARCH_SPECIFIC)} only, got {chip}",
    )


def _sparse_fp4_chip(form: MmaSpBlockScale, chip: str) -> Verdict | None:
    if form.kind not in _FP4_KINDS or chip in ARCH_SPECIFIC:
        return None
    return Verdict(
        "sparse-fp4-target",
        f"kind {form.kind} with a sparse A is legal on {describe(ARCH_SPECIFIC)} only, got {chip}",
    )


def _kind_chip(form: Mma | MmaWs, chip: str) -> Verdict | None:
    if form.kind == "i8" and chip not in I8_CHIPS:
        return Verdict("i8-target", f"kind i8 is legal on {describe(I8_CHIPS)} only, got {chip}")
    if form.kind == "ti16" and chip not in SM_107:
        return Verdict("ti16-target", f"kind ti16 is legal on {describe(SM_107)} only, got {chip}")
    return None


def _scale_input_kind(form: Mma) -> Verdict | None:
    if not form.scale_input_d or form.kind in (*_SCALE_INPUT_KINDS, *SCALED_KINDS):
        return None
    return Verdict("scale-input-d", f"scale_input_d is legal for kinds f16 and tf32 only, got {form.kind}")


def _scale_input_chip(form: Mma, chip: str) -> Verdict | None:
    if not form.scale_input_d or chip in _SCALE_INPUT_CHIPS:
        return None
    return Verdict(
        "scale-input-d-target", f"scale_input_d is legal on {describe(_SCALE_INPUT_CHIPS)} only, got {chip}"
    )


def _output_lanes(form: Mma) -> Verdict | None:
    wanted = _MASK_REGISTERS_PER_CTA * form.cta_group
    if form.disable_output_lane in (0, wanted) or form.cta_group not in CTA_GROUPS:
        return None
    return Verdict(
        "disable-output-lane",
        f"disable_output_lane must have {wanted} registers with cta_group::{form.cta_group}, "
        f"got {form.disable_output_lane}",
    )


def _ashift(form: Mma) -> Verdict | None:
    if not form.ashift:
        return None
    if form.a != "tensor":
        return Verdict("ashift", f"ashift is legal with A in tensor memory only, got A in {form.a} memory")
    if form.collector_a in COLLECTOR_USES and form.collector_a not in _SHIFTED_USES:
        reason = must_be("collector_a", _SHIFTED_USES, form.collector_a, " with ashift")
        return Verdict("ashift-collector", reason)
    return None


def _no_ashift(form: MmaBlockScale | MmaWs) -> Verdict | None:
    if not form.ashift:
        return None
    what = "weight stationary" if isinstance(form, MmaWs) else "block scale"
    return Verdict("ashift", f"ashift is not legal with {what}")


def _decompress(form: Mma | MmaBlockScale) -> Verdict | None:
    if form.decompress != _LUT_B:
        return None
    if form.kind not in _LUT_KINDS:
        got = f"kind {form.kind}"
    elif form.sparse:
        got = "a sparse A"
    elif form.ashift:
        got = "ashift"
    else:
        return None
    return Verdict(
        "decompress",
        f"decompress::{_LUT_B} is legal with kinds f8f6f4 and mxf8f6f4, dense and unshifted, got {got}",
    )


def _added_chip(form: Mma | MmaBlockScale, chip: str) -> Verdict | None:
    if chip in SM_107:
        return None
    if form.decompress:
        return Verdict("decompress-target", f"decompress is legal on {describe(SM_107)} only, got {chip}")
    if form.collector_b:
        return Verdict("collector-b-target", f"collector_b is legal on {describe(SM_107)} only, got {chip}")
    return None


def _ws_group(form: MmaWs) -> Verdict | None:
    if form.cta_group != 2:
        return None
    return Verdict("ws-cta-group", must_be("cta_group", (1,), form.cta_group, " with weight stationary"))


def _ws_kind(form: MmaWs) -> Verdict | None:
    if form.kind in SCALED_KINDS:
        return Verdict("ws-kind", must_be("kind", PLAIN_KINDS, form.kind, " with weight stationary"))
    if form.block_scale:
        return Verdict("ws-block-scale", "block_scale is not legal with weight stationary")
    return None


def _ws_buffer(form: MmaWs) -> Verdict | None:
    if form.collector_buffer in COLLECTOR_BUFFERS:
        return None
    return Verdict("ws-collector", must_be("collector_buffer", COLLECTOR_BUFFERS, form.collector_buffer))


_MMA_RULES = (_needs_block_scale, _scale_input_kind, _output_lanes, _ashift, _decompress)
_MMA_CHIP_RULES = (_kind_chip, _scale_input_chip, _added_chip)
_SCALE_RULES = (_no_block_scale, _scale_vec, _no_ashift, _decompress)
_WS_RULES = (_ws_kind, _ws_group, _no_ashift, _ws_buffer)

MMA = Tcgen05Family("tcgen05.mma", Mma, lambda: _mma_forms(Mma), _MMA_RULES, _MMA_CHIP_RULES)
MMA_SP = Tcgen05Family("tcgen05.mma.sp", MmaSp, lambda: _mma_forms(MmaSp), _MMA_RULES, _MMA_CHIP_RULES)
MMA_BLOCK_SCALE = Tcgen05Family(
    "tcgen05.mma.block_scale",
    MmaBlockScale,
    lambda: _block_scale_forms(MmaBlockScale),
    _SCALE_RULES,
    (_scale_vec_chip, _added_chip),
)
MMA_SP_BLOCK_SCALE = Tcgen05Family(
    "tcgen05.mma.sp.block_scale",
    MmaSpBlockScale,
    lambda: _block_scale_forms(MmaSpBlockScale),
    _SCALE_RULES,
    (_sparse_fp4_chip, _scale_vec_chip, _added_chip),
)
MMA_WS = Tcgen05Family("tcgen05.mma.ws", MmaWs, lambda: _ws_forms(MmaWs), _WS_RULES, (_kind_chip,))
MMA_WS_SP = Tcgen05Family("tcgen05.mma.ws.sp", MmaWsSp, lambda: _ws_forms(MmaWsSp), _WS_RULES, (_kind_chip,))

FAMILIES = (MMA, MMA_SP, MMA_BLOCK_SCALE, MMA_SP_BLOCK_SCALE, MMA_WS, MMA_WS_SP)


UNPUBLISHED = tuple(
    Unpublished(
        family.name,
        lambda form, chip: form.kind == "i8" and form.scale_input_d,
        "the ISA has scale-input-d for kinds f16 and tf32 only; ptxas accepts it for i8 too",
    )
    for family in (MMA, MMA_SP)
)
