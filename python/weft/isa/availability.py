"""Which chips and PTX versions have the instructions that no table of tensor-core instructions describes, as
ptxas 12.9 (sm_70, sm_72) and 13.5 (the rest) take them.

An instruction or modifier that no row names is on every chip from sm_70 on, in every version from PTX 6.0 on.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from weft.isa import cluster_features as cluster
from weft.isa.async_copy import COPIES, TENSOR_COPIES
from weft.isa.atomics import BF16_ADD
from weft.isa.chips import CHIPS, ChipSet, describe, only, since
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.dependent_launch import GRIDDEPCONTROL
from weft.isa.family import Verdict
from weft.isa.l2_cache import POLICIES
from weft.isa.mbarriers import TRY_WAIT
from weft.isa.mma.matrix_moves import BYTES as FAMILIES
from weft.isa.mma.sync import NARROW
from weft.isa.register_counts import SETMAXNREG
from weft.isa.tcgen05.family import ALL as WITH_TENSOR_MEMORY
from weft.isa.tcgen05.family import SM_107
from weft.isa.text.lenient_spelling import SINCE

Version = tuple[int, int]


class Row(NamedTuple):
    """Instructions whose names begin with one of `heads`, and that have all of `modifiers`: each matches a
    modifier, or several with dots between them; after `!`, none may match; `#` gives the number of operands.
    """

    heads: str
    modifiers: str
    chips: ChipSet
    ptx: Version


ALL, SM_75, SM_80, SM_86, SM_90, SM_100 = map(since, ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100"))
_STOCHASTIC = only("sm_100a", "sm_103a", "sm_107a")
_ONE_CHIP = _STOCHASTIC | only("sm_110a", "sm_120a", "sm_121a")
_REDUCED_FLOATS = WITH_TENSOR_MEMORY - only("sm_110a", "sm_110f")
_HALVES, _BF16 = "f16|f16x2", "bf16|bf16x2"
_FP8, _FP6 = "(?:e4m3|e5m2)x2", "(?:e2m3|e3m2)x2"

# fmt: off
ROWS = tuple(Row(*row) for row in (
    # instructions                   modifiers                                chips             PTX
    # Integers
    ("bmsk|szext",                    "",                                      ALL,              (7, 6)),
    ("lop3",                          "and|or",                                ALL,              (8, 2)),
    ("add|min|max",                   "u16x2|s16x2",                           SM_90,            (8, 0)),
    ("min|max",                       "relu",                                  SM_90,            (8, 0)),
    ("add",                           "sat u32|u16x2|s16x2",                   SM_107 | NARROW,  (9, 2)),
    # Floats
    ("abs",                           _HALVES,                                 ALL,              (6, 5)),
    ("abs|neg|fma",                   _BF16,                                   SM_80,            (7, 0)),
    ("min|max",                       f"{_HALVES}|{_BF16}|NaN",                SM_80,            (7, 0)),
    ("min|max",                       "xorsign",                               SM_86,            (7, 2)),
    ("min|max",                       "f32 #4",                                SM_100,           (8, 8)),
    ("add|sub|mul|set|setp|ex2|tanh", _BF16,                                   SM_90,            (7, 8)),
    ("add|sub|mul|fma",               "f32x2",                                 SM_100,           (8, 6)),
    ("add|sub|fma",                   r"f32\.(?:bf16|f16)",                    SM_100,           (8, 6)),
    ("fma",                           "relu",                                  SM_80,            (7, 0)),
    ("fma",                           "oob",                                   SM_90,            (8, 1)),
    ("set",                           r"[su](?:16|32)\.f16",                   ALL,              (6, 5)),
    ("ex2|tanh",                      _HALVES,                                 SM_75,            (7, 0)),
    ("tanh",                          "f32",                                   SM_75,            (7, 0)),
    # Conversions
    ("cvt.pack",                      "",                                      since("sm_72"),   (6, 5)),
    ("cvt.pack",                      "[su][24]",                              SM_75,            (6, 5)),
    ("cvt",                           r"relu|bf16\.f32|(?:f16|bf16)x2\.f32|tf32",SM_80,            (7, 0)),
    ("cvt",                           r"f32\.bf16",                            SM_80,            (7, 1)),
    ("cvt",                           r"ftz f32\.bf16",                        SM_90,            (7, 8)),
    ("cvt", r"bf16\.(?!f32)\w+|(?!f32)(?:bf16|[fsu]\d+)\.bf16", SM_90, (7, 8)),
    ("cvt",                           "rn|rz tf32",                            SM_90,            (7, 8)),
    ("cvt",                           "satfinite",                             ALL,              (8, 1)),
    ("cvt",                           "rn|rz satfinite tf32",                  SM_100,           (8, 6)),
    ("cvt",                           rf"{_FP8}\.\w+|\w+\.{_FP8}",             FP8_ROUNDING,     (8, 1)),
    ("cvt",                           rf"{_FP6}\.\w+|\w+\.{_FP6}|\w*e2m1x2|ue8m0x2",FAMILIES,         (8, 6)),
    ("cvt", rf"{_FP6}\.f16x2|(?:{_FP8}|{_FP6}|e2m1x2)\.bf16x2|e2m1x2\.f16x2", FAMILIES, (9, 1)),
    ("cvt",                           rf"bf16x2\.(?:{_FP8}|{_FP6}|e2m1x2)",    FAMILIES,         (9, 2)),
    ("cvt",                           "rs",                                    _STOCHASTIC,      (8, 7)),
    ("cvt",                           "s2f6x2",                                _ONE_CHIP,        (9, 1)),
    # Addresses
    ("cvta|isspacep",                 "param",                                 ALL,              (7, 7)),
    ("isspacep|ld",                   "param::entry",                          ALL,              (8, 3)),
    ("mapa|getctarank",               "",                                      SM_90,            (7, 8)),
    ("alloca|stacksave|stackrestore", "",                                      ALL,              (7, 3)),
    ("", r"(?<!cp\.async\.c[ag]\.)shared::cta", ALL, SINCE["shared::cta"]),
    ("",                              r"(?:\w+::)?cluster",                    SM_90,            (7, 8)),
    # Loads, stores and caches
    ("",                              r"L1::\w+",                              ALL,              (7, 4)),
    ("ld",                            "L2::64B|L2::128B",                      SM_75,            (7, 4)),
    ("",                              "L2::256B|L2::cache_hint",               SM_80,            (7, 4)),
    ("prefetch",                      r"L2::\w+",                              SM_80,            (7, 4)),
    ("prefetch",                      "tensormap",                             SM_90,            (8, 0)),
    ("applypriority|discard",         "",                                      SM_80,            (7, 4)),
    ("createpolicy", "", POLICIES.chips, POLICIES.ptx),
    ("ld|st",                         "mmio",                                  ALL,              (8, 2)),
    ("",                              "b128",                                  ALL,              (8, 3)),
    ("ld|st",                         r"v8|v4\.[bsuf]64",                      SM_100,           (8, 8)),
    ("st.bulk",                       "",                                      SM_100,           (8, 6)),
    # Atomic operations
    ("atom|red",                      "f16x2",                                 ALL,              (6, 2)),
    ("atom|red",                      "f16|b16",                               ALL,              (6, 3)),
    ("atom|red",                      _BF16,                                   BF16_ADD,         (7, 8)),
    ("atom|red",                      r"v\d",                                  SM_90,            (8, 1)),
    ("atom",                          "b128",                                  SM_90,            (8, 3)),
    ("multimem",                      "",                                      SM_90,            (8, 1)),
    ("multimem",                      "acc::f32",                              SM_90,            (8, 2)),
    ("multimem", r"e\dm\dx4", WITH_TENSOR_MEMORY | only("sm_120a", "sm_121a"), (8, 6)),
    # Lanes and threads
    ("activemask|nanosleep",          "",                                      ALL,              (6, 2)),
    ("elect",                         "",                                      SM_90,            (8, 0)),
    ("redux",                         "",                                      SM_80,            (7, 0)),
    ("redux",                         "f32",                                   _REDUCED_FLOATS,  (8, 6)),
    ("bar.cta|barrier.cta",           "",                                      ALL,              (7, 8)),
    ("barrier.cluster",               "",                                      SM_90,            (7, 8)),
    ("barrier.cluster",               "acquire|release|relaxed",               SM_90,            (8, 0)),
    ("setmaxnreg",                    "",                                      SETMAXNREG,       (8, 0)),
    ("griddepcontrol",                "",                                      GRIDDEPCONTROL,   (7, 8)),
    ("clusterlaunchcontrol",          "",                                      cluster.CANCEL.chips, (8, 6)),
    ("clusterlaunchcontrol", "multicast::cluster::all", cluster.CANCEL_FOR_CLUSTER.chips, (8, 6)),
    # Fences
    ("fence.proxy.alias|membar.proxy","",                                      ALL,              (7, 5)),
    ("fence.proxy.async|membar.proxy.async|fence.mbarrier_init", "", SM_90, (8, 0)),
    ("fence.proxy.tensormap::generic","",                                      SM_90,            (8, 3)),
    ("fence",                         r"sync_restrict::\S+",                   SM_90,            (8, 6)),
    ("fence.acquire|fence.release",   "",                                      SM_90,            (8, 6)),
    # Objects in shared memory
    ("mbarrier",                      "",                                      SM_80,            (7, 0)),
    ("mbarrier.test_wait",            "parity",                                SM_80,            (7, 1)),
    ("mbarrier.arrive|mbarrier.arrive_drop", "!noComplete !expect_tx #3", SM_90, (7, 8)),
    ("mbarrier.try_wait",             "",                                      TRY_WAIT,         (7, 8)),
    ("mbarrier",                      "acquire|release",                       SM_80,            (8, 0)),
    ("mbarrier",                      r"expect_tx|(?:\w+::)?cluster",          SM_90,            (8, 0)),
    ("mbarrier.expect_tx|mbarrier.complete_tx", "", SM_90, (8, 0)),
    ("mbarrier.arrive|mbarrier.arrive_drop|mbarrier.test_wait|mbarrier.try_wait", "relaxed", SM_90, (8, 6)),
    # Asynchronous copies
    ("cp.async", "", COPIES.chips, COPIES.ptx),
    ("cp.async",                      "L2::64B|L2::128B",                      SM_80,            (7, 4)),
    ("cp.async.bulk|cp.reduce.async", "", TENSOR_COPIES.chips, TENSOR_COPIES.ptx),
    ("cp.async.bulk",                 r"shared::cta\.global",                  SM_90,            (8, 6)),
    ("cp.async.bulk",                 "cp_mask",                               SM_100,           (8, 6)),
    ("cp.async.bulk", r"cta_group::\d", cluster.COPY_OF_PAIR.chips, (8, 6)),
    ("cp.async.bulk",                 "tile::gather4",                         cluster.GATHER.chips, (8, 6)),
    ("cp.async.bulk", "tile::gather4 shared::cluster|prefetch", cluster.GATHER_TO_CLUSTER.chips, (8, 6)),
    ("cp.async.bulk",                 "tile::scatter4",                        WITH_TENSOR_MEMORY, (8, 6)),
    ("cp.async.bulk",                 r"im2col::w\S*",                         WITH_TENSOR_MEMORY, (8, 6)),
    ("red.async|st.async",            "",                                      SM_90,            (8, 1)),
    ("red.async|st.async",            "release",                               SM_100,           (8, 7)),
    ("tensormap.replace",             "",                                      SETMAXNREG,       (8, 3)),
    ("tensormap.replace",             "swizzle_atomicity",                     FAMILIES,         (8, 6)),
    ("tensormap.cp_fenceproxy",       "",                                      SM_90,            (8, 3)),
))
_REGISTERS = tuple((re.compile(name), chips, ptx) for name, chips, ptx in (
    (r"%(?:n?clusterid|cluster_n?cta(?:id|rank)|is_explicit_cluster)", SM_90,       (7, 8)),
    ("%aggr_smem_size",                                             SM_90,          (8, 1)),
    ("%reserved_smem_offset_",                                      SM_80,          (7, 6)),
    ("%current_graph_exec",                                         ALL,            (8, 0)),
))
# fmt: on


class Need(NamedTuple):
    """The requirements of an instruction: one of `chips`, and PTX version `ptx` or later."""

    chips: ChipSet
    ptx: Version

    def complaint(self, chip: str | None, version: Version | None) -> Verdict | None:
        """Why a chip or a PTX version lacks the instruction; None where each has it or isn't known."""
        if chip in CHIPS and chip not in self.chips:
            return Verdict("target", f"needs {describe(self.chips)}, got {chip}")
        return needs_version(self.ptx, version)


def needs_version(needed: Version, version: Version | None) -> Verdict | None:
    """Why `version` of PTX lacks what `needed` brought; None where it has it or isn't known."""
    if version is None or version >= needed:
        return None
    wanted, given = (f"{major}.{minor}" for major, minor in (needed, version))
    return Verdict("ptx", f"needs PTX {wanted}: the text's version is {given}", (f".version {wanted}",))


@lru_cache(maxsize=1 << 12)
def need(opcode: str, operands: int) -> Need:
    """The requirements of an instruction outside of the tables, with this number of operands."""
    found = rows(opcode, operands)
    chips = frozenset[str].intersection(ALL, *(row.chips for row in found))
    return Need(chips, max((row.ptx for row in found), default=(6, 0)))


def rows(opcode: str, operands: int) -> list[Row]:
    """The rows for an instruction."""
    near = _rows_of(opcode.partition(".")[0])
    return [row for row in near if matches(opcode, operands, row.heads, row.modifiers)]


@lru_cache
def _rows_of(first: str) -> tuple[Row, ...]:
    heads = [{head.partition(".")[0] for head in row.heads.split("|")} for row in ROWS]
    return tuple(row for row, words in zip(ROWS, heads, strict=True) if words & {first, ""})


def matches(opcode: str, operands: int, heads: str, modifiers: str) -> bool:
    """Whether an instruction has one of `heads` and all of `modifiers` of a row."""
    if not any(f"{opcode}.".startswith(f"{head}." if head else "") for head in heads.split("|")):
        return False
    for wanted in modifiers.split():
        if wanted[0] == "#":
            if operands != int(wanted[1:]):
                return False
        elif (_pattern(wanted.lstrip("!")).search(opcode) is None) != (wanted[0] == "!"):
            return False
    return True


@lru_cache
def _pattern(modifier: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=\.)(?:{modifier})(?![\w:])")


def need_of_register(name: str) -> Need | None:
    """The requirements of a special register; None for those that every chip has."""
    return next((Need(chips, ptx) for pattern, chips, ptx in _REGISTERS if pattern.match(name)), None)
