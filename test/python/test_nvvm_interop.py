"""Upstream's `nvvm` operations and ours: nothing is lost between them, and both call the same intrinsics.

Upstream's translation runs in a process of its own, since it dies of what it doesn't check.
"""

import random
import re
import subprocess
from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import warm_tools
from form_kernels import OPERATIONS, module

import weft
from weft import passes
from weft.compiler import codegen, ptxas, translation
from weft.dialects import context
from weft.dialects.instruction import InstructionOp
from weft.errors import WeftError
from weft.isa import mma, wgmma, wmma
from weft.isa.chips import CHIPS
from weft.mlir import ir, llvm, operations, parse
from weft.passes import nvvm_to_weft, weft_to_nvvm
from weft.passes.upstream.operations import PAIRS

MANY = 200
FEW = 20  # of those that go both ways, by default
LLVM_CHIPS = [name for name, chip in CHIPS.items() if chip.llvm and not chip.volta]
LOWER = "lower-wmma,lower-mma,lower-wgmma,lower-tcgen05"
FAMILIES = [pair.ours.family for pair in PAIRS]
EACH = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)

TRANSLATE = """
import sys
from weft.dialects import context
from weft.mlir import llvm, parse_file
for path in sys.argv[1:]:
    module = parse_file(path, context())
    text = str(llvm.translate_module_to_llvmir(module.body.operations[0].operation))
    open(path + ".ll", "w").write(text)
"""


def placed(family, forms):
    """Forms by the last chip that has them; what only chips have that LLVM lacks is left out."""
    found = defaultdict(list)
    for form in forms:
        chips = [name for name in LLVM_CHIPS if name in family.table[form].chips]
        if chips:
            found[chips[-1]].append(form)
    return found


def sample(family, most=MANY):
    forms = list(family.table)
    return random.Random(family.name).sample(forms, most) if len(forms) > most else forms


def built(family, forms, chip):
    """A kernel for each form; immediates take all their values, and what upstream has as an attribute is
    constant.
    """
    made = module(chip, [(family, form) for form in forms])
    chosen = random.Random(0)
    with made.context:
        for op in operations(made, OPERATIONS[family.name]):
            for operand in op.form.operands:
                if operand.role == "immediate":
                    _set(op, operand.name, chosen.choice(operand.values))
                elif operand.name == "scale_d":
                    _fix(op, chosen.choice((0, 1)))
    assert made.operation.verify()
    return made


def _set(op, name, value):
    attributes = op.operation.attributes
    if name in attributes:
        del attributes[name]
    if value != op.optional[name]:
        attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _fix(op, value):
    """Gives `scale_d` a constant."""
    with ir.InsertionPoint(op), op.location:
        constant = llvm.mlir_constant(ir.IntegerAttr.get(ir.IntegerType.get_signless(1), value))
    place = next(i for i, v in enumerate(op.operands) if v == op.scale_d)
    op.operation.operands[place] = constant


def run(pipeline, made):
    passes.manager(pipeline, made.context).run(made.operation)
    return made


def lowered(made):
    """The LLVM IR that our passes make."""
    run(LOWER, made)
    return translation.translate(made.body.operations[0])


def kernels(made):
    """The text of each kernel, without its name."""
    text = made.operation.get_asm(assume_verified=True)
    return [body.partition("(")[2] for body in text.split("llvm.func @")[1:]]


def stays(family, text):
    return f'"{OPERATIONS[family.name].OPERATION_NAME}"' in text


def reasons(made):
    """Why operations have no counterpart, without the values that differ from form to form."""
    try:
        run("weft-to-nvvm{strict=true}", made)
    except WeftError as error:
        texts = [d.message.partition("can't be converted to nvvm: ")[2] for d in error.diagnostics]
        return {re.sub(r"\.sync\..*|, but got .*", "", text) for text in texts}
    return set()


def upstreams(family, forms, chip):
    """The kernels in upstream's operations, and the forms that they are of: those that don't stay."""
    made = run("weft-to-nvvm", built(family, forms, chip))
    functions = list(made.body.operations[0].bodyRegion.blocks[0].operations)
    left = []
    for form, function, text in zip(forms, functions, kernels(made), strict=True):
        if stays(family, text):
            function.operation.erase()
        else:
            left.append(form)
    return made, left


def translated(directory, modules):
    """The LLVM IR that upstream makes of modules by name. Raises CalledProcessError where it dies."""
    paths = []
    for name, made in modules.items():
        path = directory / f"{name}.mlir"
        path.write_text(run("convert-nvvm-to-llvm", made).operation.get_asm(assume_verified=True))
        paths.append(path)
    subprocess.run([warm_tools.folder() / "warm-python", "-c", TRANSLATE, *paths], check=True)
    return {name: path.with_suffix(".mlir.ll").read_text() for name, path in zip(modules, paths, strict=True)}


def calls(text):
    """The intrinsics that each function calls: result type, name, and the arguments with their types."""
    found = {}
    for match in re.finditer(r"^define [^@]*@(\w+)\(.*?^}", text, re.MULTILINE | re.DOTALL):
        lines = re.findall(r"call (.*?)(@llvm\.nvvm\.[\w.]+)\((.*)\)", match[0])
        found[match[1]] = [
            (kind.replace("void ", "").strip(), name, re.sub(r"%\d+", "%", given))
            for kind, name, given in lines
        ]
    return found


def products(ptx):
    """The `wgmma.mma_async` in a PTX text, whatever their registers are called."""
    lines = re.findall(r"wgmma\.mma_async[^;]*", ptx)
    return [" ".join(re.sub(r"%\w+|\bp\b", "%", line).split()) for line in lines]


@pytest.mark.each_value(3)
@pytest.mark.sampled(9)
@EACH
def test_converting_there_and_back_is_the_identity(family):
    for chip, forms in placed(family, sample(family)).items():
        made = built(family, forms, chip)
        before = kernels(made)
        assert all(stays(family, text) for text in before)
        run("weft-to-nvvm", made)
        run("nvvm-to-weft", made)
        assert kernels(made) == before


@pytest.mark.slow
@EACH
def test_converting_there_and_back_is_the_identity_for_every_form(family):
    for chip, forms in placed(family, family.table).items():
        made = built(family, forms, chip)
        before = kernels(made)
        assert kernels(run("nvvm-to-weft", run("weft-to-nvvm", made))) == before


def says(op, what):
    return f"upstream's verifier reports: 'nvvm.{op}' op {what}"


# Why forms of each family stay, in `reasons`' words; the families that aren't here go over whole.
SHARED = "operand #0 must be LLVM pointer in address space 3"
STAY = {
    "wmma.load": {
        "the nvvm operation takes one stride, got none",
        says("wmma.load", "invalid attribute combination"),
        says("wmma.load", "result #0 must be LLVM structure type or 64-bit float"),
    },
    "wmma.store": {
        "the nvvm operation takes one stride, got none",
        says("wmma.store", "invalid attribute combination"),
    },
    "wmma.mma": {
        "the nvvm operation has no satfinite",
        "the nvvm operation has no bit_op xor.popc",
        "the nvvm operation has no bit_op and.popc",
        "the nvvm operation has one eltypeB for c_type f16, d_type f32",
        "the nvvm operation has one eltypeB for c_type f32, d_type f16",
        says("wmma.mma", "invalid attribute combination"),
    },
    "mma.sync": {
        "the nvvm operation has no kind f8f6f4",
        "upstream's verifier reports: invalid shape or multiplicand type: f64",
        *(f"the nvvm operation has no rounding {rounding}" for rounding in ("rn", "rz", "rm", "rp")),
    },
    "mma.sp": {
        "LLVM has no intrinsic for mma.sp::ordered_metadata",
        *(
            f"upstream's translation drops the kind of {a} and {b} with f32"
            for a in ("e4m3", "e5m2")
            for b in ("e4m3", "e5m2")
        ),
    },
    "mma.block_scale": {"the nvvm operation has no scale_vec none"},
    "mma.sp.block_scale": {"the nvvm operation has no scale_vec none"},
    "ldmatrix": {says("ldmatrix", SHARED)},
    "stmatrix": {says("stmatrix", SHARED)},
    "wgmma.mma_async": {
        "the nvvm operation takes one a, got 4",
        "upstream's translation drops the bit operation of b1",
    },
    "tcgen05.alloc": {"the nvvm operation has no exclusive"},
    "tcgen05.dealloc": {"the nvvm operation has no exclusive"},
    "tcgen05.ld.red": {"the nvvm operation infers type u32, got s32"},
    "tcgen05.mma.block_scale": {f"the nvvm operation has no scale_vec {n}X" for n in (1, 2, 4)},
    "tcgen05.mma.sp.block_scale": {f"the nvvm operation has no scale_vec {n}X" for n in (1, 2, 4)},
}


@pytest.mark.each_value(3)
@pytest.mark.sampled(3)
@EACH
def test_forms_without_an_nvvm_operation_stay_for_these_reasons(family):
    found = set()
    for chip, forms in placed(family, sample(family)).items():
        found |= reasons(built(family, forms, chip))
    assert found == STAY.get(family.name, set())


def test_operations_that_upstream_has_not_stay():
    paired = {pair.ours for pair in PAIRS}
    assert {op.OPERATION_NAME for op in OPERATIONS.values() if op not in paired} == {
        "wgmma.sp_mma_async",
        "tcgen05.ld_spcompress",
    }
    assert all(issubclass(op, InstructionOp) for op in paired)


def test_sums_in_named_registers_survive_the_conversion():
    """Upstream's operation has its sums in its operand and result."""
    text = weft.compile(SUMS, arch="sm_90a").ir("lower-fragments")
    assert "first_sum = 0" in text
    module = parse(text, context())
    passes.manager("weft-to-nvvm,convert-nvvm-to-llvm", module.context).run(module.operation)
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float16)
    d = np.zeros((64, 64), np.float32)
    assert not weft.compile(str(module), arch="sm_90a").emulate(a, b, d).findings
    assert np.allclose(d, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-3)


SUMS = """
func.func @f(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %d: memref<64x64xf32>) {
  "tile.matmul"(%a, %b, %d) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf32>) -> ()
  return
}"""


def routes(directory, pick, families=FAMILIES):
    """For each of the families and its chips: the forms that upstream can say, our LLVM IR and upstream's."""
    upstream, ours, left = {}, {}, {}
    for family in families:
        for chip, forms in placed(family, pick(family)).items():
            made, said = upstreams(family, forms, chip)
            if said:
                key = f"{family.name}-{chip}"
                upstream[key], left[key] = made, (family, said)
                ours[key] = lowered(built(family, forms, chip))
    theirs = translated(directory, upstream)
    return {key: (*left[key], ours[key], theirs[key]) for key in upstream}


def disagreements(forms, ours, theirs):
    """Where upstream's LLVM IR and ours call different intrinsics. LLVM 22.1 lacks those of some forms, or
    misprints them: they have none with us.
    """
    upstream, own = calls(theirs), calls(ours)
    assert len(upstream) == len(forms)
    return [
        (form.ptx, made, own[name])
        for form, (name, made) in zip(forms, upstream.items(), strict=True)
        if (made != own[name] or made[0][1] != f"@{form.intrinsic}" if form.intrinsic else own[name])
    ]


@pytest.fixture(scope="module")
def both_routes(tmp_path_factory):
    """The routes of a few forms of a family."""
    directory = tmp_path_factory.mktemp("upstream")
    return cache(lambda family: routes(directory, lambda each: sample(each, FEW), [family]))


@pytest.mark.sampled(36)
@EACH
def test_both_routes_call_the_same_intrinsics(family, both_routes):
    found = [rest for _, *rest in both_routes(family).values()]
    assert found
    assert [wrong for rest in found for wrong in disagreements(*rest)] == []


@pytest.mark.slow
def test_both_routes_call_the_same_intrinsics_for_every_form(tmp_path):
    found = routes(tmp_path, lambda family: family.table)
    assert sum(len(forms) for _, forms, _, _ in found.values()) > 2500
    assert [wrong for _, *rest in found.values() for wrong in disagreements(*rest)] == []


@pytest.mark.slow
def test_both_routes_write_the_same_wgmma(both_routes):
    _, forms, ours, theirs = both_routes(wgmma.MMA_ASYNC)["wgmma.mma_async-sm_90a"]
    few = list(calls(theirs))[:24]
    chosen = "|".join(few)

    def only(text):
        bodies = re.findall(rf"^define [^@]*@(?:{chosen})\(.*?^}}\n", text, re.MULTILINE | re.DOTALL)
        assert len(bodies) == len(few)
        structs = re.findall(r"^%.* = type .*\n", text, re.MULTILINE)
        return products(codegen.to_ptx("\n".join(structs + bodies), "sm_90a", (8, 0)).ptx)

    lines = only(theirs)
    assert lines == only(ours)
    assert [line.split()[0] for line in lines] == [form.ptx for form in forms[: len(few)]]


def altered(pair, **fields):
    return {pair.ours: replace(pair, **fields)}, {pair.theirs.OPERATION_NAME: replace(pair, **fields)}


def pair_of(family):
    return next(pair for pair in PAIRS if pair.ours.family is family)


@pytest.mark.slow
def test_what_is_called_broken_is(monkeypatch, tmp_path):
    """Where upstream is mended, the pair needs no `broken` any more."""
    for family, forms, chip, wrong in (
        (
            mma.SPARSE,
            [mma.Sparse("m16n8k64", "e4m3", "e4m3", "f32", "f32", kind="f8f6f4")],
            "sm_120a",
            "kind",
        ),
        (
            wgmma.MMA_ASYNC,
            [wgmma.MmaAsync("m64n8k256", "b1", "b1", "s32", bit_op="and.popc")],
            "sm_90a",
            "and.popc",
        ),
    ):
        ours, _ = altered(pair_of(family), broken=lambda form: None)
        monkeypatch.setattr(weft_to_nvvm, "_BY_CLASS", weft_to_nvvm._BY_CLASS | ours)
        made, said = upstreams(family, forms, chip)
        assert said == forms
        assert wrong not in translated(tmp_path, {family.name: made})[family.name]
    assert sum(pair.broken is not type(pair).broken for pair in PAIRS) == 2


@pytest.mark.slow
def test_a_swapped_layout_is_seen_by_the_routes(monkeypatch, tmp_path):
    pair, chip = pair_of(wmma.MMA), "sm_90a"
    other = {"a_layout": "b_layout", "b_layout": "a_layout"}
    rules = tuple(replace(r, axis=other.get(r.axis, r.axis)) for r in pair.rules)
    ours, theirs = altered(pair, rules=rules)
    monkeypatch.setattr(weft_to_nvvm, "_BY_CLASS", weft_to_nvvm._BY_CLASS | ours)
    monkeypatch.setattr(nvvm_to_weft, "_BY_NAME", nvvm_to_weft._BY_NAME | theirs)
    forms = [wmma.Mma("m16n16k16", "f16", "f16", "f32", "f32", "row", "col")]
    made = built(wmma.MMA, forms, chip)
    before = kernels(made)
    assert kernels(run("nvvm-to-weft", run("weft-to-nvvm", made))) == before
    upstream = translated(tmp_path, {"k": upstreams(wmma.MMA, forms, chip)[0]})["k"]
    assert calls(upstream) != calls(lowered(built(wmma.MMA, forms, chip)))


def attributes(kind):
    """The attributes of upstream's operation, by its definition: those that the bindings can set."""
    return {name for name, each in vars(kind).items() if isinstance(each, property) and each.fset}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.theirs.OPERATION_NAME)
def test_every_attribute_of_upstreams_is_read(pair):
    read = {name for rule in pair.rules for name in rule.attributes}
    assert read == attributes(pair.theirs)
    assert not read & pair.later.keys()


def test_a_rule_that_is_missing_is_seen_by_the_round_trip(monkeypatch):
    pair = pair_of(mma.LDMATRIX)
    _, theirs = altered(pair, rules=tuple(r for r in pair.rules if r.axis != "trans"))
    monkeypatch.setattr(nvvm_to_weft, "_BY_NAME", nvvm_to_weft._BY_NAME | theirs)
    made = built(mma.LDMATRIX, [mma.Ldmatrix("m8n8", 4, True)], "sm_90a")
    with pytest.raises(WeftError, match="has no attribute 'layout': it has shape, eltType, num"):
        run("nvvm-to-weft", run("weft-to-nvvm", made))


UNSAID = [
    (wmma.MMA, wmma.Mma("m16n16k16", "bf16", "bf16", "f32", "f32"), "sm_80"),
    (wmma.MMA, wmma.Mma("m8n8k32", "s4", "s4", "s32", "s32"), "sm_75"),
    (wmma.MMA, wmma.Mma("m8n8k32", "u4", "u4", "s32", "s32", satfinite=True), "sm_75"),
    (wmma.MMA, wmma.Mma("m8n8k128", "b1", "b1", "s32", "s32", bit_op="xor.popc"), "sm_80"),
    (wmma.LOAD, wmma.Load("m8n8k128", "a", "b1", "row", "shared", True), "sm_80"),
    *((mma.SYNC, mma.Sync(f"m16n8k{k}", "f64", "f64", "f64", "f64"), "sm_90") for k in (4, 8, 16)),
    (mma.SYNC, mma.Sync("m16n8k32", "e3m2", "e2m1", "f32", "f32", kind="f8f6f4"), "sm_120a"),
    (wgmma.MMA_ASYNC, wgmma.MmaAsync("m64n16k16", "bf16", "bf16", "f32", a_registers=True), "sm_90a"),
    (wgmma.MMA_ASYNC, wgmma.MmaAsync("m64n8k256", "b1", "b1", "s32", bit_op="and.popc"), "sm_90a"),
    (wgmma.MMA_ASYNC_SPARSE, wgmma.MmaAsyncSparse("m64n8k32", "f16", "f16", "f16"), "sm_90a"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("family", "form", "chip"), UNSAID, ids=lambda value: getattr(value, "ptx", ""))
def test_what_upstream_cannot_say_is_assembled_from_ours(family, form, chip):
    made = run("weft-to-nvvm", built(family, [form], chip))
    assert stays(family, *kernels(made))
    ptx = codegen.to_ptx(
        lowered(made),
        chip,
        max(CHIPS[chip].ptx, family.table[form].ptx),
    ).ptx
    assert form.ptx in ptx
    assert ptxas.assemble(ptx, chip).cubin
