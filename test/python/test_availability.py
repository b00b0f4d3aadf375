"""Instructions outside of the tensor-core tables: chips and PTX versions as ptxas takes them."""

from dataclasses import dataclass

import pytest
from assembler import LAST, VERSIONS, Entry, assemble
from assembling import assembles
from instruction_lines import DECLARATIONS, WIDE, instruction_lines

from weft import emulator
from weft.isa import availability
from weft.isa.chips import CHIPS, ChipSet


@dataclass(frozen=True)
class Line:
    """One instruction, and what it needs by the table."""

    text: str
    chips: ChipSet
    ptx: tuple[int, int]

    @staticmethod
    def of(opcode, operands):
        needs = [availability.need(opcode, len(operands))]
        needs += filter(None, map(availability.need_of_register, operands))
        chips = frozenset.intersection(*(need.chips for need in needs))
        return Line(f"{opcode} {', '.join(operands)};", chips, max(need.ptx for need in needs))

    @property
    def first_chip(self):
        """The chip of the table that the earliest PTX version names."""
        return min(self.chips, key=lambda chip: (CHIPS[chip].ptx, list(CHIPS).index(chip)))

    @property
    def first_version(self):
        """The first version that names a chip with the instruction and has the instruction."""
        return max(self.ptx, CHIPS[self.first_chip].ptx)


D, A, B = "{%r0, %r1, %r2, %r3}", "{%r4, %r5, %r6, %r7}", "{%r8, %r9}"
FP8, SPARSE = f"{D}, {A}, {B}, {D}", f"{D}, {A}, {A}, {D}, %r8, 3"
LINES = [Line.of(*line) for line in instruction_lines()]


def refused(lines, chip, version=None):
    """The lines that ptxas refuses, with its complaints."""
    version = version or LAST[CHIPS[chip].volta]
    wide = WIDE if version >= (8, 3) else ""
    complaints = assemble(
        [Entry(line.text, {}, (), ()) for line in lines], chip, version, DECLARATIONS + wide
    )
    return {
        line: complaint for line, complaint in zip(lines, complaints, strict=True) if complaint is not None
    }


def is_known_on_volta(line, chip):
    """ptxas 12.9 takes `fence.acquire` and `fence.release` on sm_70 and sm_72, where PTX has neither."""
    return (
        CHIPS[chip].volta
        and line.text.startswith(("fence.acquire.", "fence.release."))
        and "cluster" not in line.text
    )


@pytest.mark.sampled(17)
@pytest.mark.parametrize("chip", CHIPS)
def test_each_line_is_on_the_chips_that_the_table_has(chip):
    illegal = refused(LINES, chip)
    wrong = {line.text: illegal.get(line) for line in LINES if (line in illegal) == (chip in line.chips)}
    assert not {text for text in wrong if not is_known_on_volta(Line(text, frozenset(), (0, 0)), chip)}


def points(version):
    """The lines that `version` brings by the table, by chip, and the version before."""
    by_chip = {}
    for line in LINES:
        if line.first_version == version:
            by_chip.setdefault(line.first_chip, []).append(line)
    return by_chip, max((v for v in VERSIONS if v < version), default=None)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("version", sorted({line.first_version for line in LINES}))
def test_each_line_needs_the_version_that_the_table_has(version):
    by_chip, before = points(version)
    for chip, lines in by_chip.items():
        assert not refused(lines, chip, version)
        if before and before >= CHIPS[chip].ptx:
            assert set(refused(lines, chip, before)) == set(lines)


def test_wrong_rows_are_noticed():
    (line,) = (line for line in LINES if line.text.startswith("redux.sync.min.f32"))
    assert refused([line], "sm_120a") and not refused([line], "sm_100a")
    assert refused([line], "sm_100a", (8, 5 + 1)) == {} and "sm_120a" not in line.chips
    assert availability.need("redux.sync.min.s32", 3).chips > line.chips


def test_the_lines_name_each_row():
    """So no row can be wrong unnoticed."""
    needed = {
        row for opcode, operands in instruction_lines() for row in availability.rows(opcode, len(operands))
    }
    assert needed == set(availability.ROWS)


@pytest.mark.parametrize(
    ("version", "target", "line", "message"),
    [
        (
            "8.8",
            "sm_120a",
            "redux.sync.max.NaN.f32 %r1, %r1, -1;",
            r"redux\.sync\.max\.NaN\.f32: needs sm_100f, ",
        ),
        ("8.8", "sm_90a", "add.f32x2 %d1, %d1, %d1;", r"add\.f32x2: needs sm_100 or later, got sm_90a"),
        ("7.0", "sm_90a", "mov.u32 %r1, 0;", r"\.target sm_90a needs \.version 8\.0 or later"),
        (
            "8.7",
            "sm_120a",
            "max.f32 %r1, %r1, %r1, %r1;",
            r"max\.f32: needs PTX 8\.8: the text's version is 8\.7",
        ),
        ("8.0", "sm_80", "mov.u32 %r1, %clusterid.x;", "'%clusterid.x' needs sm_90 or later, got sm_80"),
        (
            "8.3",
            "sm_89",
            f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {FP8};",
            "needs PTX 8.4: the text",
        ),
        (
            "8.4",
            "sm_80",
            f"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {SPARSE};",
            "selector must be 0, got 3",
        ),
    ],
)
def test_the_emulator_refuses_what_ptxas_refuses(version, target, line, message):
    text = f".version {version}\n.target {target}\n.address_size 64\n"
    text += f".visible .entry k() {{ {DECLARATIONS}\n{line}\nret; }}"
    assert not assembles(text, target)
    with pytest.raises(emulator.PtxError, match=message):
        emulator.Module(text).launch("k", args=[])
