"""`weft lint` judges spellings and operands as ptxas does."""

import pytest
from assembling import assembles
from lint_lines import F16, F16_LINE, HEAD, REGISTERS, SCALED, TCGEN05, WGMMA, verdicts


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.row.col.m16n8k16.f32.f16.f16.f32" + F16_LINE.removeprefix(F16),
        "mma .sync\n.aligned.m16n8k16.row.col.f32.f16.f16.f32" + F16_LINE.removeprefix(F16),
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r0, %r1, %r2, %r3}, [%r4 + 16];",
        "ldmatrix.sync.aligned.trans.m8n8.x1.shared.b16 {%r0}, [symbol+4];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 vector, [%r4];",
        "wmma.load.a.sync.aligned.m16n16k16.row.shared::cta.f16 "
        "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d0], 16;",
        "wmma.mma.sync.aligned.m16n16k16.row.col.s32.s8.s8.s32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, "
        "{%r0,%r1}, {%r0,%r1}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7};",
        WGMMA.replace(".sync.aligned.m64n8k16", ".m64n8k16.sync.aligned") + ", 1, 1, 0, 0;",
    ],
)
def test_orders_and_aliases_are_legal(line):
    assert verdicts(line) == [None]


@pytest.mark.parametrize(
    "line, chip",
    [
        ("tcgen05.cp.cta_group::1.warpx4.32x128b [%r0], %d0;", "sm_100a"),
        (
            SCALED.replace("m16n8k32.row.col.kind::mxf8f6f4", "kind::mxf8f6f4.m16n8k32.row.col")
            + ", {0, 1}, %r7, {%h0, %h1};",
            "sm_120a",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 "
            "[%r0], %d0, %d1, %r1, [%r2], [%r3], %p0;",
            "sm_100f",
        ),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];", "sm_100a"),
    ],
)
def test_orders_and_aliases_are_legal_on_later_chips(line, chip):
    assert verdicts(line, chip) == [None]


F64_LINE = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz {%q0, %q1}, {%q2}, {%q3}, {%q0, %q1};"
HALF = "{%r0, %r1, %r2, %r3}"
HALVES = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
SHORT = f"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {HALF}, {HALVES}, {HALVES}, {HALF};"
CTA = "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r0}, [%r1];"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%d0], %h0;"
S8 = "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};"
SPELLED = [
    ("sm_80", "9.0", F64_LINE, True),
    ("sm_80", "9.0", F64_LINE.replace(".rz", ".rz.rn"), False),
    ("sm_80", "9.0", F64_LINE.replace(".rz", ".rna"), False),
    ("sm_80", "9.0", SHORT, True),
    ("sm_80", "9.0", SHORT.replace("f16.f16", "f16.f16.f16.f16"), False),
    ("sm_80", "7.7", CTA, False),
    ("sm_80", "7.8", CTA, True),
    ("sm_80", "7.7", CTA.replace("::cta", ""), True),
    ("sm_80", "9.0", S8, True),
    ("sm_80", "9.0", S8.replace(".row", ".satfinite.row"), True),
    ("sm_80", "9.0", S8.replace(".row", ".row.row"), False),
    ("sm_107a", "9.4", COMMIT, True),
    ("sm_107a", "9.4", COMMIT.replace(".b64", ".multicast::cluster::32b.b64"), False),
]


@pytest.mark.parametrize("chip, version, line, legal", SPELLED)
def test_spellings_are_judged_as_ptxas_does(chip, version, line, legal):
    head = f".version {version}\n.target {chip}\n"
    (verdict,) = verdicts(head + line, chip)
    assert (verdict is None) == legal
    assert (
        assembles(f"{head}.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}", chip)
        == legal
    )


@pytest.mark.parametrize("line", [CTA.replace(".b16", ".b16.row"), COMMIT.replace(".b64", ".b2.b64")])
def test_what_ptxas_ignores_is_refused_and_named(line):
    chip = "sm_100a"
    (verdict,) = verdicts(line, chip)
    assert "(ptxas ignores ." in verdict.reason
    text = f".version 9.0\n.target {chip}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\n}}"
    assert assembles(text, chip)


OPERANDS = [
    ("sm_90a", F16_LINE, None),
    ("sm_90a", F16_LINE.replace("%f0", "_", 1), None),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}", "vector"), None),
    ("sm_90a", F16_LINE.replace(", %r3}", "}"), "registers"),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}, ", ""), "operands"),
    ("sm_90a", F16_LINE.replace(";", ", %r1;"), "operands"),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}", "{%r4, }"), "syntax"),
    ("sm_90a", F16_LINE.replace(";", ",;"), "operands"),
    ("sm_90a", F16_LINE.replace(";", " ret;"), "syntax"),
    ("sm_90a", F16_LINE.removesuffix(";"), "syntax"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", "operands"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, %r1;", "operands"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [symbol+16];", None),
    *(("sm_90a", f"{WGMMA}, {x};", None) for x in ("1, -1, 0, 1", "0x1, 1U, 0b0, 01", "(1), 2-1, 0, +0")),
    *(("sm_90a", f"{WGMMA}, {x};", "scale_a") for x in ("0, 1, 0, 0", "%r1, 1, 0, 0", "1.0, 1, 0, 0")),
    ("sm_90a", f"{WGMMA}, 1, 1, 0, 2;", "trans_b"),
    ("sm_90a", f"{WGMMA}, 1, 1, 0;", "operands"),
    ("sm_90a", "wgmma.wait_group.sync.aligned -1;", "group"),
    ("sm_90a", "wgmma.wait_group.sync.aligned;", "operands"),
    ("sm_120a", f"{SCALED}, {{0, 1}}, {{%r7}}, {{%h0, 3}};", None),
    ("sm_120a", f"{SCALED}, {{4, 0}}, %r7, {{0, 0}};", "byte_id_a"),
    ("sm_120a", f"{SCALED}, {{0, 2}}, %r7, {{0, 0}};", "thread_id_a"),
    ("sm_120a", f"{SCALED}, 0, %r7, {{0, 0}};", "operands"),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", None),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r2;", None),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "columns"),
    ("sm_100a", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 0;", "columns"),
    ("sm_100a", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], %r2;", "operands"),
    ("sm_100a", "tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r1], %r3, {%r2};", "offset"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2, %r3}, [%r4];", "registers"),
    ("sm_100a", f"{TCGEN05}, !%p0;", None),
    ("sm_100a", f"{TCGEN05}, %p0, 15;", None),
    ("sm_100a", f"{TCGEN05}, %p0, 16;", "scale_input_d"),
    ("sm_100a", f"{TCGEN05}, %p0, %d3;", "scale_input_d"),
    ("sm_100a", f"{TCGEN05}, {{%r1, %r2, %r3, %r4}}, %p0, 3;", None),
    ("sm_100a", f"{TCGEN05}, {{%r1, %r2, %r3}}, %p0;", "disable-output-lane"),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chip, line, rule", OPERANDS)
def test_operands_are_judged_as_ptxas_does(chip, line, rule):
    (verdict,) = verdicts(line, chip)
    assert (verdict and verdict.rule) == rule
    text = (
        f".version 9.4\n.target {chip}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}"
    )
    assert assembles(text, chip) == (rule is None)


@pytest.mark.parametrize("wrong", ["[]", "[[%r1]]", "[{%r1}]", "[%r1[0]]", "[%r1, {}]", "[%r1,]", "[%r1]]"])
def test_brackets_hold_one_address(wrong):
    body = f"{REGISTERS}\n{CTA}\n{CTA.replace('[%r1]', wrong)}\nret;"
    text = f"{HEAD}.address_size 64\n.visible .entry k() {{ {body} }}"
    legal, verdict = verdicts(text)
    assert legal is None
    assert verdict.reason == f"has an operand that can't be read: '{wrong}'"
    assert not assembles(text, "sm_90a")


@pytest.mark.parametrize("wrong", ["{}", "{%r4, %r5,}", "{%r4,, %r5}", "{, %r4}", "{[%r4], %r5}"])
def test_lists_hold_registers_between_commas(wrong):
    (verdict,) = verdicts(HEAD + F16_LINE.replace("{%r4, %r5}", wrong))
    assert verdict.reason == f"has an operand that can't be read: '{wrong}'"


def test_operands_get_what_would_be_right():
    (verdict,) = verdicts(F16_LINE.replace(", %r3}", "}"))
    fixed = F16_LINE.replace("{%r0, %r1, %r2, %r3}", "{%a0, %a1, %a2, %a3}")
    assert str(verdict) == f"a must have 4 registers, got 3; nearest legal: {fixed}"
    (verdict,) = verdicts("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "sm_100a")
    assert str(verdict) == (
        "columns must be one of 32, 64, 128, 256, 512, got 48; nearest legal: "
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"
    )
