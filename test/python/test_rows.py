"""Every row of the tables goes from its operation to machine code: MLIR, LLVM IR, PTX with exactly the row's
spelling and every register in its place, and a cubin.
"""

import re
from collections import defaultdict
from itertools import combinations

import pytest

import weft
from weft.compiler import ptxas
from weft.dialects import tcgen05
from weft.isa import mma
from weft.isa.chips import CHIPS
from weft.isa.tables import FAMILIES
from weft.mlir import ir
from weft.target import Target
from weft.tools import form_kernels
from weft.tools.form_kernels import OPERATIONS, kernels, module, printed, wanted

SPELLED = [family for family in FAMILIES if family.name in OPERATIONS]
EACH = pytest.mark.parametrize("family", SPELLED, ids=lambda family: family.name)
MANY = 32
KERNELS = 256
HEAD = ".version 9.0\n.target {}\n.address_size 64\n.visible .entry "


def chip_of(support):
    """The first chip of a row that ptxas 13 assembles for, of those that LLVM knows where there is one."""
    chips = [c for c in CHIPS.values() if c.name in support.chips and not c.volta]
    return next((chip.name for chip in chips if chip.llvm), chips[0].name)


def version_of(chip, support):
    """The PTX version that `weft.compile` writes for one such form."""
    return max(Target.of(chip).ptx, support.ptx)


def sample(family):
    """Forms that have every pair of the axes' values that some form has, the row's chips and version being an
    axis too, and of those with many values each part of one (N of a shape, say) once: each rule that makes
    rows is among them.
    """
    crossed = [axis for axis in family.axes if len(family.values(axis)) <= MANY]
    seen, few = set(), {}
    for form, support in family.table.items():
        values = [(axis, getattr(form, axis)) for axis in crossed] + [("support", support)]
        rest = (axis for axis in family.axes if axis not in crossed)
        parts = [part for axis in rest for part in re.findall(r"[a-z]+\d*", str(getattr(form, axis)))]
        new = {*combinations(values, 2), *values, *parts} - seen
        if new:
            few[form] = support
            seen |= new
    return few


def modules(forms):
    """PTX of many forms, with the forms and the chip: forms of one chip and PTX version go together."""
    groups = defaultdict(list)
    for (family, form), (chip, support) in forms:
        groups[chip, version_of(chip, support)].append((family, form))
    for (chip, version), members in groups.items():
        for i in range(0, len(members), KERNELS):
            part = members[i : i + KERNELS]
            yield part, chip, form_kernels.to_ptx(module(chip, part), chip, version)


def faults(forms):
    """What is wrong in the PTX of forms, in words; raises WeftError where LLVM or ptxas refuses one."""
    wrong = []
    for part, chip, ptx in modules(forms):
        ptxas.assemble(ptx, chip)
        for (_, form), text in zip(part, kernels(ptx), strict=True):
            if printed(text, form) != wanted(form):
                wrong.append(f"{chip}: expected {wanted(form)}, got {printed(text, form)}")
            lacking = form.intrinsic is None or chip in mma.UNSELECTABLE.get(form, ())
            if is_inline(text) != lacking:
                wrong.append(f"{chip}: {form.ptx} is {'' if is_inline(text) else 'not '}inline PTX")
    return wrong


def is_inline(text):
    """Whether an instruction is inline PTX; an empty one only keeps its neighbours apart."""
    return re.search(r"begin inline asm\s+(?!\s*// end)", text) is not None


def placed(family, table):
    return [((family, form), (chip_of(support), support)) for form, support in table.items()]


def text_of(family, form, chip):
    """The PTX of one form's kernel."""
    ptx = form_kernels.to_ptx(module(chip, [(family, form)]), chip, version_of(chip, family.table[form]))
    (text,) = kernels(ptx)
    return text


@pytest.mark.sampled(48)
@EACH
def test_every_row_becomes_its_instruction(family):
    assert faults(placed(family, sample(family))) == []


@pytest.mark.slow
@EACH
def test_every_form_becomes_its_instruction(family):
    assert faults(placed(family, family.table)) == []


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_every_form_of_a_chip_becomes_its_instruction(chip):
    everything = [
        ((family, form), (chip, support))
        for family in SPELLED
        for form, support in family.table.items()
        if chip in support.chips
    ]
    wrong = [
        (form.ptx, printed(text, form))
        for part, _, ptx in modules(everything)
        for (_, form), text in zip(part, kernels(ptx), strict=True)
        if printed(text, form) != wanted(form)
    ]
    assert wrong == []


def test_what_llvm_cannot_select_on_one_chip_is_inline_ptx_there():
    for form, chips in mma.UNSELECTABLE.items():
        for chip in chips:
            text = text_of(mma.SYNC, form, chip)
            assert printed(text, form) == wanted(form)
            assert is_inline(text)
            ptxas.assemble(HEAD.format(chip) + text, chip)
        assert not is_inline(text_of(mma.SYNC, form, "sm_80"))


@pytest.mark.sampled(8)
@EACH
def test_forms_on_a_chip_that_llvm_lacks_become_their_instructions(family):
    """As intrinsics where the chip whose code LLVM generates has the form, else as inline PTX."""
    theirs = [form for form, support in family.table.items() if "sm_107a" in support.chips]
    few = [*theirs[:2], *theirs[len(theirs) // 2 :][:1], *theirs[-2:]]
    assert faults([((family, form), ("sm_107a", family.table[form])) for form in few]) == []


def test_forms_for_that_chip_alone_are_those_of_no_intrinsic():
    only = {"sm_107a", "sm_107f"}
    forms = {form: s for family in FAMILIES for form, s in family.table.items() if s.chips <= only}
    assert len(forms) > 3800 and not any(form.intrinsic for form in forms)


def test_every_family_has_its_operation():
    assert {family.name for family in FAMILIES} == set(OPERATIONS)


SYNC = mma.Sync("m16n8k16", "f16", "f16", "f32", "f32")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".row.col.", ".col.row."),
        ("{%r1, %r2, %r3, %r4}", "{%r1, %r3, %r2, %r4}"),
        ("{%r5, %r6}", "{%r1, %r2}"),
        ("{%r11, %r12, %r13, %r14}", "{%r12, %r11, %r13, %r14}"),
        ("[k0_param_4]", "[k0_param_5]"),
        ("[%rd2+4], %r12", "[%rd2+8], %r12"),
        ("ret;", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1}; ret;"),
    ],
)
def test_a_planted_fault_is_seen(old, new):
    text = text_of(mma.SYNC, SYNC, "sm_80")
    assert printed(text, SYNC) == wanted(SYNC)
    assert old in text
    assert printed(text.replace(old, new), SYNC) != wanted(SYNC)


def test_what_is_updated_in_place_is_followed_through():
    (family,) = (f for f in SPELLED if f.name == "wgmma.mma_async")
    form = next(f for f in family.table if f.shape == "m64n8k16" and f.d_type == "f32")
    text = text_of(family, form, "sm_90a")
    (line,) = printed(text, form)
    assert line == (f"{form.ptx} {{d:0,d:1,d:2,d:3}},a:0,b:0,scale_d:0,-1,-1,1,1")
    for old, new in (("{%r1, %r2,", "{%r2, %r1,"), ("+4], %r2", "+4], %r1")):
        assert old in text
        assert printed(text.replace(old, new), form) != [line]


def test_a_kernel_is_written_in_the_ptx_version_that_its_instructions_need():
    with weft.Module() as made, made.kernel("k", [], block=(32, 1, 1), grid=(1, 1, 1), chip="sm_100a"):
        tcgen05.relinquish_alloc_permit(cta_group=1)
    assert ".version 8.6" in weft.compile(made).ptx
    with (
        weft.Module() as made,
        made.kernel(
            "k", [ir.IntegerType.get_signless(32)], block=(32, 1, 1), grid=(1, 1, 1), chip="sm_100a"
        ) as (columns,),
    ):
        address = weft.mlir.llvm.inttoptr(ir.Type.parse("!llvm.ptr<6>"), columns)
        tcgen05.dealloc(address=address, columns=columns, cta_group=1, exclusive=True)
    compiled = weft.compile(made)
    assert ".version 9.4" in compiled.ptx
    assert compiled.cubin
