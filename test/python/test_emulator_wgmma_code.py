"""Products of wgmma.mma_async have the same bits, findings and messages by code of the host as in the
interpreter.
"""

import re

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator import launch
from weft.emulator.compiled import products
from weft.emulator.instructions import wgmma
from weft.emulator.running.function_code import Places, RegisterBlock
from weft.isa.wgmma.descriptors import MatrixDescriptor

BYTES, A, B = 32768, 0, 16384
THREADS, CTAS = 256, 2


def instruction(types, n, k, flags="p, 1, 1, 0, 0", words="da, db", more="", a=None):
    """One instruction, with the accumulators from register `first` on."""
    d, a_type, b_type = types
    count = n // 4 if d == "f16" else n // 2
    listed = ", ".join(f"%r{i}" for i in range(count))
    da, db = (f"%{word}" for word in words.split(", "))
    return (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{more}.{d}.{a_type}.{b_type} {{{listed}}}, "
        f"{a or da}, {db}, %{flags};"
    )


def kernel(lines, registers=128):
    """Fills the shared memory of each CTA, runs `lines`, and stores the registers of each thread."""
    stores = "\n".join(f"st.global.b32 [%o+{1024 * i}], %r{i};" for i in range(registers))
    fill = "\n".join(
        f"ld.global.v4.b32 {{%q0, %q1, %q2, %q3}}, [%in+{4096 * i}];"
        f"st.shared.v4.b32 [%s+{4096 * i}], {{%q0, %q1, %q2, %q3}};"
        for i in range(BYTES // 4096)
    )
    loads = "\n".join(f"ld.global.b32 %r{i}, [%c+{1024 * i}];" for i in range(registers))
    loads += "\n".join(f"ld.global.b32 %x{i}, [%c+{1024 * (i + 64)}];" for i in range(4))
    return f"""
.visible .entry k(.param .u64 p_in, .param .u64 p_c, .param .u64 p_out, .param .u64 p_words) {{
  .reg .b32 %r<{registers + 1}>, %x<4>, %q<4>, %s, %t, %cta; .reg .b64 %in, %c, %o, %w, %w2, %da, %db, %dc;
  .reg .pred %p, %n;
  .shared .align 1024 .b8 memory[{BYTES}];
  ld.param.u64 %in, [p_in]; ld.param.u64 %c, [p_c]; ld.param.u64 %o, [p_out]; ld.param.u64 %w, [p_words];
  mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x;
  mad.wide.u32 %in, %cta, {BYTES}, %in; mad.wide.u32 %in, %t, 16, %in;
  mad.wide.u32 %c, %t, 4, %c; mad.wide.u32 %o, %cta, {1024 * registers}, %o; mad.wide.u32 %o, %t, 4, %o;
  mov.u32 %s, memory; mad.lo.u32 %s, %t, 16, %s;
  shr.u32 %q0, %t, 7; mad.wide.u32 %w2, %q0, 24, %w;
  ld.global.u64 %da, [%w2]; ld.global.u64 %db, [%w2+8]; ld.global.u64 %dc, [%w2+16];
  setp.eq.u64 %p, %dc, 0; not.pred %n, %p;
  {fill}
  {loads}
  {" ".join(lines)}
  {stores}
  ret;
}}"""


AROUND = [
    "fence.proxy.async.shared::cta; bar.sync 0;",
    "wgmma.fence.sync.aligned;",
    "{body}",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
]


def around(*body, without=""):
    lines = [line for line in AROUND if not without or without not in line]
    return [line.replace("{body}", " ".join(body)) for line in lines]


def descriptor(begin, mode, leading=0, stride=1024):
    return MatrixDescriptor(begin, leading, stride, 0, mode).encode()


def outcome(lines, words, compiled, data, sanitize=True):
    """All that a launch shows. The words are those of each warpgroup: A, B, and 0 to add D."""
    out = np.zeros((CTAS, 128, THREADS), np.uint32)
    c = data[1][: 128 * THREADS].reshape(128, THREADS).copy()
    try:
        report = module(kernel(lines), "sm_90a").launch(
            "k",
            grid=CTAS,
            block=THREADS,
            args=[data[0], c, out, np.array(words, np.uint64)],
            compiled=compiled,
            threads=1,
            sanitize=sanitize,
        )
    except (emulator.Fault, emulator.Deadlock) as error:
        return str(error), error.findings, out.tobytes()
    return report, out.tobytes()


def random_data(rng, kind):
    """The shared memory of the CTAs and the accumulators: any bits, or numbers (`kind` is their type)."""
    words = rng.integers(0, 1 << 32, (CTAS, BYTES // 4), np.uint64).astype(np.uint32)
    c = rng.integers(0, 1 << 32, 256 * 256, np.uint64).astype(np.uint32)
    if kind is not None:
        count = CTAS * BYTES // np.dtype(kind).itemsize
        words = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)).astype(kind).view(np.uint32)
        c = (rng.standard_normal(256 * 256) * 16).astype(np.float32).view(np.uint32)
    return words.reshape(CTAS, -1), c


def check(lines, words, data, product_calls, used=True, **more):
    expected = outcome(lines, words, False, data, **more)
    assert not product_calls
    got = outcome(lines, words, True, data, **more)
    assert bool(product_calls) == used
    assert got == expected
    return expected


BF16 = ("f32", "bf16", "bf16")
SAME = [[descriptor(A, "128B"), descriptor(B, "128B"), 0]] * 2
FORMS = {
    "bf16": (BF16, 64, 16, {}, ml_dtypes.bfloat16),
    "bf16 of any bits": (BF16, 32, 16, {}, None),
    "f16": (("f32", "f16", "f16"), 24, 16, {}, np.float16),
    "f16 of any bits": (("f32", "f16", "f16"), 24, 16, {}, None),
    "f16 sums": (("f16", "f16", "f16"), 32, 16, {}, np.float16),
    "f16 sums of any bits": (("f16", "f16", "f16"), 32, 16, {}, None),
    "negated": (BF16, 32, 16, {"flags": "p, -1, 1, 0, 0"}, None),
    "twice negated": (BF16, 32, 16, {"flags": "p, -1, -1, 0, 0"}, ml_dtypes.bfloat16),
    "mn-major": (BF16, 64, 16, {"flags": "p, 1, 1, 1, 1"}, None),
    "without D": (BF16, 32, 16, {"flags": "n, 1, 1, 0, 0"}, None),
    "A in registers": (BF16, 32, 16, {"flags": "p, 1, 1, 0", "a": "{%x0, %x1, %x2, %x3}"}, None),
    "tf32": (("f32", "tf32", "tf32"), 32, 8, {"flags": "p, 1, 1"}, None),
    "fp8": (("f32", "e4m3", "e5m2"), 32, 32, {"flags": "p, 1, 1"}, None),
    "fp8 to f16": (("f16", "e5m2", "e4m3"), 32, 32, {"flags": "p, 1, 1"}, None),
    "s8": (("s32", "s8", "s8"), 32, 32, {"flags": "p"}, None),
    "u8 and s8": (("s32", "u8", "s8"), 32, 32, {"flags": "p"}, None),
    "saturated": (("s32", "s8", "u8"), 32, 32, {"flags": "p", "more": ".satfinite"}, None),
    "fp8 in registers": (
        ("f32", "e4m3", "e4m3"),
        32,
        32,
        {"flags": "p, 1, 1", "a": "{%x0, %x1, %x2, %x3}"},
        None,
    ),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", FORMS)
def test_forms_have_the_same_bits(name, product_calls):
    types, n, k, more, kind = FORMS[name]
    data = random_data(np.random.default_rng(len(name)), kind)
    words = SAME
    if name == "mn-major":
        words = [[descriptor(A, "128B", 4096), descriptor(B, "128B", 4096), 0]] * 2
    written = instruction(types, n, k, **more)
    if "s32" in types:
        written = re.sub(r"(\.satfinite)?\.s32(\.\w+\.\w+) ", r"\1.s32\2 ", written)
    check(around(written, written), words, data, product_calls)
    assert len(product_calls) == 2


@pytest.mark.each_value(1)
@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
def test_swizzles_and_warpgroups_of_different_matrices(mode, product_calls):
    words = [
        [descriptor(A, mode, 256), descriptor(B, mode, 128), 0],
        [descriptor(A + 4096, mode, 256), descriptor(B + 2048, mode, 128), 1],
    ]
    data = random_data(np.random.default_rng(7), ml_dtypes.bfloat16)
    check(around(instruction(BF16, 16, 16)), words, data, product_calls)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled moves", "interpreted moves"])
def test_a_copy_of_an_accumulator_stays_as_it_was(interpreted, product_calls, monkeypatch):
    if interpreted:
        monkeypatch.setattr(launch, "tier_of", lambda *args: None)
    once = [*around(instruction(BF16, 16, 16)), "mov.b32 %r100, %r0; mov.b32 %r101, %r7;"]
    data = random_data(np.random.default_rng(8), ml_dtypes.bfloat16)
    results = check(once + around(instruction(BF16, 16, 16)), SAME, data, product_calls)
    out = np.frombuffer(results[1], np.uint32).reshape(CTAS, 128, THREADS)
    assert (out[:, 100] != out[:, 0]).any()


@pytest.mark.usefixtures("lone_places")
@pytest.mark.parametrize("name", ["bf16", "A in registers"])
def test_products_keep_the_places_that_they_use(name, product_calls):
    types, n, k, more, kind = FORMS[name]
    written = instruction(types, n, k, **more)
    data = random_data(np.random.default_rng(11), kind)
    check(around(written, written), SAME, data, product_calls)


def test_a_register_that_something_else_has_is_shared():
    block = RegisterBlock(np.zeros((4, 2, 32), np.uint32))
    file = list(block.registers)
    assert not block.is_shared
    other = file[2]
    assert block.is_shared
    del other
    part = file[1][:1]
    assert block.is_shared
    del part
    assert not block.is_shared


BROKEN = {
    "no proxy fence": (around(instruction(BF16, 16, 16), without="fence.proxy"), SAME, "missing-proxy-fence"),
    "no wgmma.fence": (around(instruction(BF16, 16, 16), without="wgmma.fence"), SAME, "wgmma-fence"),
    "out of bounds": (
        around(instruction(BF16, 16, 16)),
        [[descriptor(A, "128B"), descriptor(BYTES - 1024, "128B"), 0]] * 2,
        "out-of-bounds",
    ),
    "a slice beyond its swizzle": (
        around(instruction(BF16, 16, 16)),
        [[descriptor(A, "128B"), descriptor(B + 112, "128B"), 0]] * 2,
        "descriptor",
    ),
    "a write in between": (
        around(
            instruction(BF16, 16, 16),
            "st.shared.b32 [%s], %t; bar.sync 0;",
            instruction(BF16, 16, 16),
        ),
        SAME,
        "async-source-overwritten",
    ),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", BROKEN)
def test_mistakes_have_the_same_findings(name, product_calls):
    lines, words, rule = BROKEN[name]
    data = random_data(np.random.default_rng(9), ml_dtypes.bfloat16)
    expected = outcome(lines, words, False, data)
    findings = expected[0].findings if len(expected) == 2 else expected[1]
    assert rule in {finding.rule for finding in findings}
    assert outcome(lines, words, True, data) == expected


@pytest.mark.each_value(1)
@pytest.mark.parametrize("change", ["places", "powers", "sanitizer"])
def test_a_mistake_in_the_code_is_caught(change, monkeypatch):
    """Each change of the code shows in one of the comparisons above."""
    products._compiled.cache_clear()
    lines, words = around(instruction(BF16, 16, 16), instruction(BF16, 16, 16)), SAME
    if change == "places":
        plain = wgmma.Quick._matrices

        def moved(*args, **named):
            return [Places(each.elements ^ 512, each.chunks) for each in plain(*args, **named)]

        monkeypatch.setattr(wgmma.Quick, "_matrices", moved)
    elif change == "powers":
        monkeypatch.setitem(products.LEAST, "bf16", 20)
    else:
        monkeypatch.setattr(products.OperandReads, "record", lambda *args: True)
        lines = BROKEN["no proxy fence"][0]
    data = random_data(np.random.default_rng(10), ml_dtypes.bfloat16)
    expected = outcome(lines, words, False, data)
    different = outcome(lines, words, True, data) != expected
    products._compiled.cache_clear()
    assert different
