"""Every chip from sm_70 to sm_121: what names it, which PTX version brought it, what a kernel may use on it.

PTX versions and limits were read off ptxas 12.9 (sm_70, sm_72) and 13.5 (the rest); shared memory is the most
that one CTA can opt in to (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
"""

import re
from dataclasses import dataclass
from functools import cache

from weft.isa.suggest import did_you_mean

KIB = 1024
# On every chip:
LANES = 32  # of a warp
WARPS = 4  # of a warpgroup
WARPGROUP = WARPS * LANES  # threads
REGISTERS = 64 * KIB  # of 32 bits, of a multiprocessor
THREAD_REGISTERS = 255  # of a thread at most
BARRIERS = 16  # of a CTA, for bar.sync

_OLDEST_OF_CUDA_13 = 75


@dataclass(frozen=True)
class Chip:
    """One value of ptxas's `-arch`.

    `ptx` is the first PTX version that names it; `shared_bytes` the shared memory one CTA can have,
    `sm_shared_bytes` what a multiprocessor has for all its CTAs, `sm_threads` the threads it holds at once.
    `llvm` is whether LLVM 22.1 knows it.
    """

    name: str
    ptx: tuple[int, int]
    shared_bytes: int
    sm_shared_bytes: int
    sm_threads: int
    llvm: bool = True

    @property
    def number(self) -> int:
        """The compute capability without its dot: 90 for sm_90a."""
        return int(self.name.removeprefix("sm_").rstrip("af"))

    @property
    def variant(self) -> str:
        """`a` (this chip only), `f` (its family) or nothing (every later chip runs it too)."""
        return self.name.removeprefix("sm_").lstrip("0123456789")

    @property
    def generated_as(self) -> str:
        """The chip that LLVM 22.1 generates code for: this one, or the nearest before it of its variant that
        LLVM knows. What that one lacks is inline PTX; the text names this chip.
        """
        alike = [c for c in CHIPS.values() if c.llvm and c.variant == self.variant]
        return max((c for c in alike if c.number <= self.number), key=lambda chip: chip.number).name

    @property
    def volta(self) -> bool:
        """Whether the last ptxas that assembles for it is CUDA 12's."""
        return self.number < _OLDEST_OF_CUDA_13

    @property
    def registers(self) -> int:
        """32-bit registers of a multiprocessor."""
        return REGISTERS


#    chip       PTX     CTA KiB  SM KiB  threads
_ROWS: tuple[tuple[str, tuple[int, int], int, int, int], ...] = (
    ("sm_70", (6, 0), 96, 96, 2048),
    ("sm_72", (6, 1), 96, 96, 2048),
    ("sm_75", (6, 3), 64, 64, 1024),
    ("sm_80", (7, 0), 163, 164, 2048),
    ("sm_86", (7, 1), 99, 100, 1536),
    ("sm_87", (7, 4), 163, 164, 1536),
    ("sm_88", (9, 0), 99, 100, 1536),
    ("sm_89", (7, 8), 99, 100, 1536),
    ("sm_90", (7, 8), 227, 228, 2048),
    ("sm_90a", (8, 0), 227, 228, 2048),
    ("sm_100", (8, 6), 227, 228, 2048),
    ("sm_100f", (8, 8), 227, 228, 2048),
    ("sm_100a", (8, 6), 227, 228, 2048),
    ("sm_103", (8, 8), 227, 228, 2048),
    ("sm_103f", (8, 8), 227, 228, 2048),
    ("sm_103a", (8, 8), 227, 228, 2048),
    ("sm_107", (9, 4), 227, 228, 2048),
    ("sm_107f", (9, 4), 227, 228, 2048),
    ("sm_107a", (9, 4), 227, 228, 2048),
    ("sm_110", (9, 0), 227, 228, 1536),
    ("sm_110f", (9, 0), 227, 228, 1536),
    ("sm_110a", (9, 0), 227, 228, 1536),
    ("sm_120", (8, 7), 99, 100, 1536),
    ("sm_120f", (8, 8), 99, 100, 1536),
    ("sm_120a", (8, 7), 99, 100, 1536),
    ("sm_121", (8, 8), 99, 100, 1536),
    ("sm_121f", (8, 8), 99, 100, 1536),
    ("sm_121a", (8, 8), 99, 100, 1536),
)

CHIPS = {
    name: Chip(name, ptx, cta * KIB, sm * KIB, threads, llvm=not name.startswith("sm_107"))
    for name, ptx, cta, sm, threads in _ROWS
}

_OLDER = "10 11 12 13 20 21 30 32 35 37 50 52 53 60 61 62 82 101 101f 101a"
OLDER_TARGETS = tuple(f"sm_{number}" for number in _OLDER.split())
"""What else `.target` may name, as ptxas 13.5 does: chips without a row, and sm_110 by its first name."""
RENAMED = {f"sm_101{variant}": f"sm_110{variant}" for variant in ("", "f", "a")}
"""The names that PTX 9.0 replaced, and the new ones."""
PRODUCTS = {
    "v100": "sm_70",
    "t4": "sm_75",
    "a100": "sm_80",
    "l40": "sm_89",
    "rtx4090": "sm_89",
    "h100": "sm_90a",
    "h200": "sm_90a",
    "b200": "sm_100a",
    "b300": "sm_103a",
    "thor": "sm_110a",
    "rtx5090": "sm_120a",
    "gb10": "sm_121a",
}
"""The chips of some GPUs, by names that users know."""
TARGET_OPTIONS = ("debug", "texmode_unified", "texmode_independent", "map_f64_to_f32")
"""What may follow the chip in `.target`."""

#  major: the last minor version that ptxas 13.5 knows
_LAST_MINOR = {1: 5, 2: 3, 3: 2, 4: 3, 5: 1, 6: 5, 7: 8, 8: 8, 9: 5}
PTX_VERSIONS = frozenset((major, minor) for major, last in _LAST_MINOR.items() for minor in range(last + 1))
"""The versions of PTX, as `.version` has them."""
NEWEST_PTX = max(PTX_VERSIONS)

LINE_BYTES = 128
"""Of a line of the L2 cache."""
MOST_SHARED_BYTES = max(chip.shared_bytes for chip in CHIPS.values())  # of a CTA, on any chip

ChipSet = frozenset[str]


def register_share(threads: int) -> int:
    """The registers of each of `threads` threads that share a multiprocessor's: a multiple of 8."""
    return min(REGISTERS // threads, THREAD_REGISTERS) // 8 * 8


def of_capability(major: int, minor: int) -> str:
    """The chip of a GPU with this compute capability, by the name that has all of its instructions."""
    name = f"sm_{major}{minor}"
    return f"{name}a" if f"{name}a" in CHIPS else name


def can_run(chip: str, target: str) -> bool:
    """Whether a GPU of `chip`, whichever of its variants names it, runs PTX for `target`: its own, for `f`
    that of an earlier chip of its family, and that of any earlier chip for a name with neither letter.
    """
    given = CHIPS[chip].number
    if target not in CHIPS:
        return target.removeprefix("sm_").isdecimal()
    wanted, variant = CHIPS[target].number, CHIPS[target].variant
    if variant == "a":
        return given == wanted
    return given >= wanted and (variant != "f" or given // 10 == wanted // 10)


@cache
def since(first: str) -> ChipSet:
    """`first` and every later chip, with all variants: what PTX calls "sm_XY or higher"."""
    return frozenset(c.name for c in CHIPS.values() if c.number >= CHIPS[first].number)


def only(*names: str) -> ChipSet:
    """These chips and no others."""
    return frozenset(CHIPS[name].name for name in names)


@cache
def describe(chips: ChipSet) -> str:
    """A chip set in words: `sm_80 or later`, or the names in the order of the table."""
    names = [name for name in CHIPS if name in chips]
    if names and chips == since(names[0]):
        return f"{names[0]} or later"
    return ", ".join(names)


def unknown_chip(chip: str) -> str:
    """The rest of a message about an option or a directive that names a chip which isn't in the tables."""
    return f"must be a known chip ({', '.join(CHIPS)}), got '{chip}'{_chip_hint(chip)}"


def _chip_hint(chip: str) -> str:
    """What to name instead of a chip that isn't in the tables; to append to a message."""
    if chip in RENAMED:
        renamed = RENAMED[chip]
        return f"; PTX {'.'.join(map(str, CHIPS[renamed].ptx))} renamed it to '{renamed}'"
    first = next(iter(CHIPS.values()))
    if chip in OLDER_TARGETS and int(chip.removeprefix("sm_")) < first.number:
        return f"; no instruction of the tables runs on a chip before {first.name}"
    gpu = re.sub(r"[^a-z0-9]", "", str(chip).lower())
    if gpu in PRODUCTS:
        return f"; the chip of that GPU is '{PRODUCTS[gpu]}'"
    return did_you_mean(chip, CHIPS)
