"""Products of mma.sync have the same bits by code of the host as in the interpreter."""

import numpy as np
import pytest
from emulator_ptx import module

from weft.emulator.compiled import products
from weft.emulator.instructions import mma

# The modifiers, and the numbers of registers of D, A and B; C has as many as D.
FORMS = {
    "bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2),
    "f16": ("m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2),
    "f16 to f16": ("m16n8k8.row.col.f16.f16.f16.f16", 2, 2, 1),
    "tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2),
    "fp8": ("m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e5m2.f32", 4, 4, 2),
    "fp6": ("m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m3.f32", 4, 4, 2),
    "s8": ("m16n8k32.row.col.satfinite.s32.s8.u8.s32", 4, 4, 2),
    "u4": ("m16n8k64.row.col.s32.u4.s4.s32", 4, 4, 2),
}
# Of fp4 in bytes and of bits, only the interpreter computes the products.
INTERPRETED = {
    "fp4": ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32", 4, 4, 2),
    "b1": ("m16n8k128.row.col.s32.b1.b1.s32.xor.popc", 4, 2, 1),
}
WARPS, COUNT = 4, 12


def outcome(form, compiled, guard=""):
    """The registers of D after two products, of any bits."""
    modifiers, d, a, b = form
    rng = np.random.default_rng(len(modifiers))
    words = rng.integers(0, 1 << 32, (COUNT, 32 * WARPS), np.uint64).astype(np.uint32)
    c = 2 if modifiers.endswith("f16.f16.f16") else d
    names = iter(f"%r{i}" for i in range(COUNT))
    of_a, of_b, of_c = ("{" + ", ".join(next(names) for _ in range(n)) + "}" for n in (a, b, c))
    of_d = "{" + ", ".join(f"%s{i}" for i in range(d)) + "}"
    again = of_d if c == d else of_c
    kinds = modifiers.replace(".xor.popc", "")
    kinds += ".xor.popc" if "popc" in modifiers else ""
    multiply = f"{guard} mma.sync.aligned.{kinds}"
    body = "\n".join(f"ld.global.b32 %r{i}, [%rd0+{128 * WARPS * i}];" for i in range(COUNT))
    text = f""".visible .entry k(.param .u64 p_words, .param .u64 p_out) {{
      .reg .b32 %r<{COUNT}>, %s<4>, %t; .reg .b64 %rd<2>; .reg .pred %p;
      ld.param.u64 %rd0, [p_words]; ld.param.u64 %rd1, [p_out]; mov.u32 %t, %tid.x;
      mad.wide.u32 %rd0, %t, 4, %rd0; mad.wide.u32 %rd1, %t, 4, %rd1;
      mov.u32 %s0, 0; mov.u32 %s1, 0; mov.u32 %s2, 0; mov.u32 %s3, 0;
      {body}
      setp.lt.u32 %p, %t, 64;
      {multiply} {of_d}, {of_a}, {of_b}, {of_c};
      {multiply} {of_d}, {of_a}, {of_b}, {again};
      st.global.b32 [%rd1], %s0; st.global.b32 [%rd1+{128 * WARPS}], %s1;
      st.global.b32 [%rd1+{256 * WARPS}], %s2; st.global.b32 [%rd1+{384 * WARPS}], %s3; ret;
    }}"""
    out = np.zeros((4, 32 * WARPS), np.uint32)
    target = "sm_120a" if "kind" in modifiers else "sm_90a"
    report = module(text, target).launch("k", grid=1, block=32 * WARPS, args=[words, out], compiled=compiled)
    return report.findings, report.instructions, out.tobytes()


@pytest.mark.each_value(3)
@pytest.mark.parametrize("name", [*FORMS, *INTERPRETED])
def test_any_bits_have_the_same_sums(name, product_calls):
    form = (FORMS | INTERPRETED)[name]
    expected = outcome(form, False)
    assert not product_calls
    assert outcome(form, True) == expected
    assert bool(product_calls) == (name in FORMS)


def test_some_warps_of_a_group(product_calls):
    expected = outcome(FORMS["bf16"], False, "@%p")
    assert outcome(FORMS["bf16"], True, "@%p") == expected
    assert product_calls


@pytest.mark.usefixtures("lone_places")
def test_products_keep_the_places_that_they_use(product_calls):
    expected = outcome(FORMS["bf16"], False)
    assert outcome(FORMS["bf16"], True) == expected
    assert product_calls


@pytest.mark.parametrize("change", ["firsts", "half"])
def test_a_mistake_in_the_code_is_caught(change, monkeypatch):
    name = {"firsts": "bf16", "half": "f16"}[change]
    expected = outcome(FORMS[name], False)
    products._compiled.cache_clear()
    if change == "firsts":
        plain = mma._firsts
        monkeypatch.setattr(mma, "_firsts", lambda *args: plain(*args)[:1])
    else:
        monkeypatch.setitem(products.LEAST, "f16", 20)
    different = outcome(FORMS[name], True) != expected
    products._compiled.cache_clear()
    assert different
