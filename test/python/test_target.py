"""Targets: the PTX version, families and code generator of each chip."""

import pytest

from weft.compiler import codegen, ptxas
from weft.errors import WeftError
from weft.isa.chips import CHIPS, KIB, OLDER_TARGETS, PTX_VERSIONS, RENAMED, Chip, describe, only, since
from weft.target import Target

KERNEL = "define ptx_kernel void @k() { ret void }"
NEWEST_LLVM = (9, 0)  # the newest PTX that LLVM 22.1 writes


def test_every_chip_from_sm_70_to_sm_121_is_known_with_its_variants():
    assert next(iter(CHIPS)) == "sm_70" and list(CHIPS)[-1] == "sm_121a"
    assert {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100f", "sm_103a", "sm_120a"} <= set(CHIPS)
    for chip in CHIPS.values():
        assert chip.name == f"sm_{chip.number}{chip.variant}" and chip.variant in ("", "a", "f")
        if chip.variant:
            assert CHIPS[f"sm_{chip.number}"].shared_bytes == chip.shared_bytes


@pytest.mark.parametrize("name", ["sm_71", "sm_90b", "sm_90f", "SM_90", "90", "sm_200", "", "sm_80 "])
def test_an_unknown_chip_is_refused_with_the_known_ones(name):
    with pytest.raises(WeftError, match=rf"must be a known chip \(sm_70, .*sm_121a\), got '{name}'"):
        Target.of(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sm_101", "PTX 9.0 renamed it to 'sm_110'"),
        ("sm_101f", "PTX 9.0 renamed it to 'sm_110f'"),
        ("sm_101a", "PTX 9.0 renamed it to 'sm_110a'"),
        ("sm_61", "no instruction of the tables runs on a chip before sm_70"),
        ("sm_82", "did you mean 'sm_89'?"),
        ("sm_91a", "did you mean 'sm_90a'?"),
    ],
)
def test_an_unknown_chip_gets_what_to_name_instead(name, said):
    with pytest.raises(WeftError) as caught:
        Target.of(name)
    assert str(caught.value).endswith(f"got '{name}'; {said}")


def test_renamed_chips_have_rows_by_their_new_names():
    assert set(RENAMED) <= set(OLDER_TARGETS) and set(RENAMED.values()) <= set(CHIPS)


def test_a_multiprocessor_holds_what_one_cta_can_have():
    """Since sm_80 each CTA costs 1 KiB of the shared memory beside its own; before, nothing."""
    for chip in CHIPS.values():
        reserved = KIB if chip.number >= 80 else 0
        assert chip.sm_shared_bytes == chip.shared_bytes + reserved
        assert chip.registers == 65536 and chip.sm_threads % 512 == 0 and 1024 <= chip.sm_threads <= 2048


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [name for name, chip in CHIPS.items() if not chip.volta])
def test_ptxas_knows_each_chip_from_its_ptx_version_on(name):
    """The first version that names the chip assembles, the one before doesn't."""
    chip = CHIPS[name]
    text = ".version {}.{}\n.target {}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
    assert ptxas.assemble(text.format(*chip.ptx, name), name).kernels
    before = (chip.ptx[0], chip.ptx[1] - 1) if chip.ptx[1] else (chip.ptx[0] - 1, 8)
    with pytest.raises(WeftError):
        ptxas.assemble(text.format(*before, name), name)


def test_ptxas_knows_the_versions_of_ptx_that_are_listed_and_no_others():
    """Of each major version the last that is listed and the one after, and the first of the next major."""
    last = {major: max(minor for of, minor in PTX_VERSIONS if of == major) for major, _ in PTX_VERSIONS}
    for version in [
        *last.items(),
        *((major, minor + 1) for major, minor in last.items()),
        (max(last) + 1, 0),
    ]:
        with pytest.raises(WeftError) as caught:
            ptxas.assemble(".version {}.{}\n.target sm_0\n".format(*version), "sm_90")
        assert ("Unsupported .version" in str(caught.value)) == (version not in PTX_VERSIONS), version


@pytest.mark.each_value(6)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, chip in CHIPS.items() if not chip.volta])
def test_ptxas_takes_the_static_shared_memory_of_every_chip_and_no_more(name):
    """48 KiB is the most that a kernel can declare itself; what a launch can ask for is `shared_bytes`."""
    chip = CHIPS[name]
    text = (
        ".version {}.{}\n.target {}\n.address_size 64\n"
        ".visible .entry k() {{ .reg .b32 %r; .shared .b8 s[{}]; "
        "ld.shared.u32 %r, [s]; st.shared.u32 [s+4], %r; ret; }}\n"
    )
    assert ptxas.assemble(text.format(*chip.ptx, name, 48 * KIB), name).kernels["k"].shared_bytes >= 48 * KIB
    with pytest.raises(WeftError, match="too much shared data"):
        ptxas.assemble(text.format(*chip.ptx, name, chip.shared_bytes + 4), name)


@pytest.mark.parametrize("name", [n for n, chip in CHIPS.items() if chip.llvm])
def test_llvm_generates_code_for_each_chip_with_a_generator(name):
    target = Target.of(name)
    assert target.ptx <= NEWEST_LLVM
    made = codegen.to_ptx(KERNEL, name, target.ptx).ptx
    assert f".version {target.ptx[0]}.{target.ptx[1]}\n.target {name}\n" in made


UNKNOWN_TO_LLVM = pytest.mark.parametrize("name", [n for n, chip in CHIPS.items() if not chip.llvm])


@UNKNOWN_TO_LLVM
def test_llvm_refuses_each_chip_without_a_generator(name, monkeypatch):
    monkeypatch.setattr(Chip, "generated_as", property(lambda chip: chip.name))
    with pytest.raises(WeftError, match=f"LLVM doesn't know processor {name}"):
        codegen.to_ptx(KERNEL, name, NEWEST_LLVM)


@UNKNOWN_TO_LLVM
def test_a_chip_unknown_to_llvm_gets_the_code_of_the_nearest_before_it(name):
    target = Target.of(name)
    assert target.chip.generated_as == name.replace("107", "103")
    made = codegen.to_ptx(KERNEL, name, target.ptx).ptx
    assert f".version 9.4\n.target {name}\n" in made
    assert ptxas.assemble(made, name).kernels


def test_code_for_a_chip_that_llvm_knows_is_its_own():
    assert all(chip.generated_as == name for name, chip in CHIPS.items() if chip.llvm)


def test_the_ptx_version_is_the_chips_first_and_no_lower_than_8_4():
    assert Target.of("sm_70").ptx == Target.of("sm_90a").ptx == (8, 4)
    assert Target.of("sm_100a").ptx == (8, 6)
    assert Target.of("sm_120").ptx == (8, 7)


def test_since_takes_every_later_chip_with_its_variants():
    assert since("sm_70") == frozenset(CHIPS)
    assert since("sm_120") == {"sm_120", "sm_120f", "sm_120a", "sm_121", "sm_121f", "sm_121a"}
    assert only("sm_90a", "sm_100a") == {"sm_90a", "sm_100a"}


def test_chip_sets_are_told_in_words():
    assert describe(since("sm_80")) == "sm_80 or later"
    assert describe(only("sm_100a", "sm_90a")) == "sm_90a, sm_100a"


def test_a_chip_that_no_table_has_cannot_stand_in_a_row():
    with pytest.raises(KeyError):
        only("sm_91")
    with pytest.raises(KeyError):
        since("sm_91")
