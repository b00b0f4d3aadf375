"""What kernels contain of upstream's arith, math, vector and gpu dialects: right, or refused at its line."""

import math
from fractions import Fraction
from functools import cache, reduce
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import upstream_cases
from upstream_cases import GROUPS, Case, differences

import weft
from weft import mlir
from weft.dialects import context
from weft.errors import WeftError
from weft.passes.analysis import unlowered, upstream_operations
from weft.passes.analysis.upstream_operations import TABLE

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

KINDS = [(group, kind) for group, (_, kinds) in GROUPS.items() for kind in kinds]


@cache
def _judged(group: str, kind: str) -> tuple[list[Case], list[tuple[Case, WeftError]]]:
    """The cases that are lowered, and those that are refused."""
    lowered, refused, own = [], [], context()
    for case in GROUPS[group][0](kind):
        try:
            unlowered.check(mlir.parse(upstream_cases.module([case]), own))
            lowered.append(case)
        except WeftError as error:
            refused.append((case, error))
    return lowered, refused


@pytest.mark.sampled(7)
@pytest.mark.parametrize("chip", ["sm_80", "sm_70", "sm_90a"])
@pytest.mark.parametrize(("group", "kind"), KINDS)
def test_what_is_lowered_computes_what_numpy_does(group: str, kind: str, chip: str) -> None:
    lowered, _ = _judged(group, kind)
    lowered = [each for each in lowered if chip != "sm_70" or (each.op, kind) != ("math.fma", "bf16")]
    for first in range(0, len(lowered), 40):
        assert differences(lowered[first : first + 40], chip) == []


def test_what_is_refused_is_named_at_its_line_with_a_remedy() -> None:
    for group, kind in KINDS:
        for case, error in _judged(group, kind)[1]:
            (said,) = error.diagnostics
            assert said.location is not None
            assert said.location.line == 4 + len(case.ins) + sum(
                k in ("i1", "i4", "index") for k in case.ins
            ) + (len(case.lines) - 1), case.name
            assert said.message.startswith(f"'{case.op}' op"), case.name
            assert "isn't lowered by any pass of Weft: " in said.message


def test_the_table_has_every_operation_and_the_cases_every_row() -> None:
    assert _named("arith") | _named("math") | _named("vector") <= TABLE.keys()
    tried = {case.op for group, kind in KINDS for case in _judged(group, kind)[0]}
    legal = {op for op, row in TABLE.items() if row.kinds is not None and op.startswith(("arith.", "math."))}
    assert legal - tried == {"arith.constant"}


VECTORS: dict[str, tuple[str, Any]] = {
    "shuffle": (
        "%r = vector.shuffle %a, %b [0, 5, 2, 7] : V, V",
        lambda x, y: _columns(x[0], y[1], x[2], y[3]),
    ),
    "broadcast": (
        "%e = vector.extract %a[2] : T from V; %r = vector.broadcast %e : T to V",
        lambda x, y: _columns(x[2], x[2], x[2], x[2]),
    ),
    "insert": (
        "%n = arith.constant 3 : index; %i = arith.andi %t, %n : index;"
        "%e = vector.extract %a[%i] : T from V; %r = vector.insert %e, %b[1] : T into V",
        lambda x, y: _columns(y[0], x[np.arange(16) % 4, np.arange(16)], y[2], y[3]),
    ),
    "interleave": (
        "%i = vector.interleave %a, %b : V -> vector<8xT>;"
        "%j, %k = vector.deinterleave %i : vector<8xT> -> V;"
        "%r = vector.shuffle %j, %k [1, 4, 3, 6] : V, V",
        lambda x, y: _columns(x[1], y[0], x[3], y[2]),
    ),
    "slices": (
        "%s = vector.extract_strided_slice %b {offsets = [1], sizes = [2], strides = [1]} : V to vector<2xT>;"
        "%r = vector.insert_strided_slice %s, %a {offsets = [2], strides = [1]} : vector<2xT> into V",
        lambda x, y: _columns(x[0], x[1], y[1], y[2]),
    ),
    "transpose": (
        "%m = vector.shape_cast %a : V to vector<2x2xT>;"
        "%n = vector.transpose %m, [1, 0] : vector<2x2xT> to vector<2x2xT>;"
        "%r = vector.shape_cast %n : vector<2x2xT> to V",
        lambda x, y: _columns(x[0], x[2], x[1], x[3]),
    ),
    "elements": (
        "%e:4 = vector.to_elements %a : V; %r = vector.from_elements %e#3, %e#1, %e#0, %e#2 : V",
        lambda x, y: _columns(x[3], x[1], x[0], x[2]),
    ),
    "masked load": (
        "%m = vector.constant_mask [3] : vector<4xi1>;"
        "%r = vector.maskedload %p[%f], %m, %b : M, vector<4xi1>, V into V",
        lambda x, y: _columns(x[0], x[1], x[2], y[3]),
    ),
    "gather": (
        "%i = arith.constant dense<[3, 0, 1, 1]> : vector<4xi32>; %n = arith.constant 2 : index;"
        "%m = vector.create_mask %n : vector<4xi1>;"
        "%r = vector.gather %p[%f] [%i], %m, %b : M, vector<4xi32>, vector<4xi1>, V into V",
        lambda x, y: _columns(x[3], x[0], y[2], y[3]),
    ),
    "expand": (
        "%m = arith.constant dense<[1, 0, 1, 1]> : vector<4xi1>;"
        "%r = vector.expandload %p[%f], %m, %b : M, vector<4xi1>, V into V",
        lambda x, y: _columns(x[0], y[1], x[1], x[2]),
    ),
    "transfer": (
        "%e = vector.extract %b[0] : T from V; %k = arith.constant 62 : index;"
        "%r = vector.transfer_read %p[%k], %e : M, V",
        lambda x, y: _columns(np.full(16, x[2, 15]), np.full(16, x[3, 15]), y[0], y[0]),
    ),
    "outer product": (
        "%e = vector.extract %b[0] : T from V; %r = vector.outerproduct %a, %e : V, T",
        lambda x, y: x * y[0],
    ),
    "contract": (
        "%m = vector.shape_cast %a : V to vector<2x2xT>; %n = vector.shape_cast %b : V to vector<2x2xT>;"
        "%x = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, "
        "affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], "
        'iterator_types = ["parallel", "parallel", "reduction"]} %m, %n, %n : '
        "vector<2x2xT>, vector<2x2xT> into vector<2x2xT>; %r = vector.shape_cast %x : vector<2x2xT> to V",
        lambda x, y: _columns(
            x[0] * y[0] + x[1] * y[2] + y[0],
            x[0] * y[1] + x[1] * y[3] + y[1],
            x[2] * y[0] + x[3] * y[2] + y[2],
            x[2] * y[1] + x[3] * y[3] + y[3],
        ),
    ),
    **{
        f"reduction {name}": (
            f"%e = vector.reduction <{name}>, %a : V into T; %r = vector.broadcast %e : T to V",
            lambda x, y, function=function: np.broadcast_to(reduce(function, x), x.shape),
        )
        for name, function in {
            "add": np.add,
            "mul": np.multiply,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
            **dict.fromkeys(("maxsi", "maximumf", "maxnumf"), np.maximum),
            **dict.fromkeys(("minsi", "minimumf", "minnumf"), np.minimum),
        }.items()
    },
    "fma": ("%r = vector.fma %a, %b, %a : V", lambda x, y: x * y + x),
    "functions": (
        "%e = math.sqrt %a : V; %g = math.absf %b : V; %r = arith.maxnumf %e, %g : V",
        lambda x, y: np.fmax(np.sqrt(x), np.abs(y)),
    ),
    "matrices of functions": (
        "%m = vector.shape_cast %a : V to vector<2x2xT>; %n = math.sqrt %m : vector<2x2xT>;"
        "%r = vector.shape_cast %n : vector<2x2xT> to V",
        lambda x, y: np.sqrt(x),
    ),
}
WHOLE_ONLY = ("and", "or", "xor", "maxsi", "minsi")


def _columns(*columns: Any) -> Any:
    return np.stack(columns)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [*upstream_cases.WORDS, *upstream_cases.FLOATS])
def test_vectors_compute_what_numpy_does(kind: str) -> None:
    is_float = kind in upstream_cases.FLOATS
    chosen = {
        name: case
        for name, case in VECTORS.items()
        if (is_float and not name.endswith(WHOLE_ONLY))
        or not (is_float or name.endswith(("f", "fma", "functions")))
    }
    memory, lines = (
        f"memref<64x{kind}>",
        ["%four = arith.constant 4 : index", "%f = arith.muli %t, %four : index"],
    )
    lines += [
        f"%{x} = vector.load %{p}[%f] : {memory}, vector<4x{kind}>" for x, p in zip("ab", "pq", strict=True)
    ]
    shared = {name: f"%{name}" for name in ("a", "b", "p", "t", "f")}
    for number, (text, _) in enumerate(chosen.values()):
        text = text.replace("M", memory).replace("V", "vector<4xT>").replace("T", kind)
        lines += [upstream_cases.renamed(line.strip(), shared, number) for line in text.split(";")]
        lines.append(f"vector.store %r_{number}, %o{number}[%f] : {memory}, vector<4x{kind}>")
    arguments = [f"%{name}: {memory}" for name in ("p", "q", *(f"o{i}" for i in range(len(chosen))))]
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, 16), "sm_80")
    x, y = np.random.default_rng(0).integers(1, 9, (2, 64)).astype(upstream_cases.dtype(kind))
    results = [np.zeros_like(x) for _ in chosen]
    assert not kernel.emulate(x, y, *results, grid=(1, 1, 1)).findings
    for (name, (_, reference)), got in zip(chosen.items(), results, strict=True):
        expected = reference(x.reshape(16, 4).T, y.reshape(16, 4).T).T.astype(x.dtype).ravel()
        assert (got == expected).all(), name


MATRIX = """!M = !gpu.mma_matrix<16x16x{kind}, "COp">
gpu.module @m {{
  gpu.func @k(%p: memref<16x16x{kind}>, %q: memref<16x16x{kind}>, %o: memref<16x16x{kind}>) kernel
      attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %z = arith.constant 0 : index
    %a = gpu.subgroup_mma_load_matrix %p[%z, %z] {{leadDimension = 16 : index}} : memref<16x16x{kind}> -> !M
    %b = gpu.subgroup_mma_load_matrix %q[%z, %z] {{leadDimension = 16 : index}} : memref<16x16x{kind}> -> !M
    %r = gpu.subgroup_mma_elementwise {name} {operands} : ({types}) -> !M
    gpu.subgroup_mma_store_matrix %r, %o[%z, %z] {{leadDimension = 16 : index}} : !M, memref<16x16x{kind}>
    gpu.return
  }}
}}"""
MATRICES: dict[str, Any] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maxf": np.maximum,
    "minf": np.minimum,
    "negatef": lambda x, _: -x,
    **dict.fromkeys(("addi", "subi", "muli", "divs", "divu", "negates", "extf", "truncf")),
}


def _matrix(name: str, kind: str) -> str:
    count = 1 if name.startswith("negat") or name in ("extf", "truncf") else 2
    operands, types = ", ".join(("%a", "%b")[:count]), ", ".join(["!M"] * count)
    return MATRIX.format(kind=kind, name=name, operands=operands, types=types)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("name", [name for name, function in MATRICES.items() if function])
def test_elements_of_matrices_are_computed(name: str, kind: str) -> None:
    text = _matrix(name, kind)
    if kind == "f16" and name in ("maxf", "minf"):
        with pytest.raises(
            WeftError, match=f"op {name} on f16 isn't lowered by any pass of Weft: .*legal types are f32"
        ):
            weft.compile(text, "sm_80")
        return
    x, y = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(upstream_cases.dtype(kind))
    result = np.zeros_like(x)
    assert not weft.compile(text, "sm_80").emulate(x, y, result, grid=(1, 1, 1)).findings
    assert (result == MATRICES[name](x, y)).all()


def test_other_functions_of_matrices_are_refused() -> None:
    for name, kind in (
        (name, "i32" if name[-1] in "isu" else "f16") for name, each in MATRICES.items() if not each
    ):
        with pytest.raises(
            WeftError, match=f"op {name} on {kind} isn't lowered by any pass of Weft"
        ) as caught:
            unlowered.check(mlir.parse(_matrix(name, kind), context()))
        assert caught.value.diagnostics[0].location.line == 8


@pytest.mark.sampled(7)
@pytest.mark.parametrize("width", [16, 8, 1, "dynamic"])
@pytest.mark.parametrize(("mode", "kind"), [("xor", "f32"), ("up", "i32"), ("down", "f64"), ("idx", "i64")])
def test_segments_shuffle_on_their_own(mode: str, kind: str, width: int | str) -> None:
    given = (
        "%w = arith.index_cast %n : index to i32"
        if width == "dynamic"
        else f"%w = arith.constant {width} : i32"
    )
    lines = [
        f"%v = memref.load %p[%t] : memref<48x{kind}>",
        "%n = arith.constant 4 : index" if width == "dynamic" else "",
        given,
        "%one = arith.constant 1 : i32",
        f"%r, %is = gpu.shuffle {mode} %v, %one, %w : {kind}",
        f"memref.store %r, %o[%t] : memref<48x{kind}>",
        "%b = arith.extui %is : i1 to i8",
        "memref.store %b, %i[%t] : memref<48xi8>",
    ]
    # The last warp has 16 lanes: no segment waits for others.
    arguments = [f"%p: memref<48x{kind}>", f"%o: memref<48x{kind}>", "%i: memref<48xi8>"]
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, 48), "sm_80")
    size, lane = 4 if width == "dynamic" else width, np.arange(48)
    place = lane % size
    source = {"xor": place ^ 1, "up": place - 1, "down": place + 1, "idx": np.full(48, 1 % size)}[mode]
    inside = (source >= 0) & (source < size)
    values = np.arange(48).astype(upstream_cases.dtype(kind))
    result, valid = np.zeros_like(values), np.zeros(48, np.int8)
    assert not kernel.emulate(values, result, valid, grid=(1, 1, 1)).findings
    assert (result == np.where(inside, lane - place + source, lane)).all()
    assert (valid == inside).all()


@pytest.mark.each_value(2)
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
def test_a_width_may_be_no_power_of_two(mode: str, fixed: bool) -> None:
    width = "arith.constant 13 : i32" if fixed else "arith.index_cast %n : index to i32"
    lines = [
        "%n = gpu.block_dim x",
        f"%w = {width}",
        "%by = arith.constant 4 : i32",
        "%x = arith.index_cast %t : index to i32",
        f"%r, %is = gpu.shuffle {mode} %x, %by, %w : i32",
        "%minus = arith.constant -1 : i32",
        "%s = arith.select %is, %r, %minus : i32",
        "memref.store %s, %o[%t] : memref<13xi32>",
    ]
    kernel = weft.compile(upstream_cases.kernel(["%o: memref<13xi32>"], lines, 13), "sm_80")
    lane, result = np.arange(13), np.zeros(13, np.int32)
    source = {"xor": lane ^ 4, "up": lane - 4, "down": lane + 4, "idx": np.full(13, 4)}[mode]
    assert not kernel.emulate(result, grid=(1, 1, 1)).findings
    assert (result == np.where((source >= 0) & (source < 13), source, -1)).all()


@pytest.mark.each_value(2)
@pytest.mark.parametrize("wide", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("small", upstream_cases.SHORT)
def test_fp8_is_rounded_once(small: str, wide: str) -> None:
    """What is midway between two numbers of fp8, next to it, and beyond the range; by vectors. And all of
    fp8 in the other type.
    """
    codes = np.arange(256, dtype=np.uint8).view(upstream_cases.dtype(small))
    kind = upstream_cases.dtype(wide)
    finite = np.sort(np.unique(codes.astype(np.float64)[np.isfinite(codes.astype(np.float64))]))
    step = finite[-1] - finite[-2]
    steps = np.concatenate([finite[:1] - step, finite, finite[-1:] + step])
    middle = ((steps[1:] + steps[:-1]) / 2).astype(kind)
    near = [np.nextafter(middle, kind(end)) for end in (-np.inf, np.inf)]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 6e4, -6e4], kind)
    values = np.zeros(1024, kind)
    found = np.concatenate([finite.astype(kind), middle, *near, special])
    values[: len(found)] = found
    text = f"vector<4x{wide}>", f"vector<4x{small}>"
    lines = [
        "%four = arith.constant 4 : index",
        "%at = arith.muli %t, %four : index",
        f"%a = vector.load %p[%at] : memref<1024x{wide}>, {text[0]}",
        f"%r = arith.truncf %a : {text[0]} to {text[1]}",
        f"vector.store %r, %o[%at] : memref<1024x{small}>, {text[1]}",
        f"%c = memref.load %q[%t] : memref<256x{small}>",
        f"%e = arith.extf %c : {small} to {wide}",
        f"memref.store %e, %w[%t] : memref<256x{wide}>",
    ]
    arguments = [f"%p: memref<1024x{wide}>", f"%o: memref<1024x{small}>"]
    arguments += [f"%q: memref<256x{small}>", f"%w: memref<256x{wide}>"]
    got, extended = np.zeros(1024, codes.dtype), np.zeros(256, kind)
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, 256), "sm_80")
    assert not kernel.emulate(values, got, codes, extended, grid=(1, 1, 1)).findings
    rounded = [  # ml_dtypes rounds f64 twice
        math.copysign(upstream_cases.nearest(Fraction(x), small), x) if x and math.isfinite(x) else x
        for x in values.astype(np.float64).tolist()
    ]
    for one, other in ((got, np.array(rounded).astype(codes.dtype)), (extended, codes.astype(kind))):
        x, y = one.astype(np.float64), other.astype(np.float64)
        assert ((np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))).all()


REDUCTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "add": (np.add, ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64")),
    "mul": (np.multiply, ("f32", "i64")),
    **{f"max{kind}": (np.maximum, (of,)) for kind, of in (("si", "i16"), ("numf", "bf16"), ("imumf", "f64"))},
    **{f"min{kind}": (np.minimum, (of,)) for kind, of in (("si", "i64"), ("numf", "f16"), ("imumf", "f32"))},
    "maxui": (np.maximum, ("i32",)),
    "minui": (np.minimum, ("i8",)),
    "and": (np.bitwise_and, ("i32",)),
    "or": (np.bitwise_or, ("i64",)),
    "xor": (np.bitwise_xor, ("i8",)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("size", "stride"), [(32, 1), (8, 1), (4, 8), (2, 4), (1, 1)])
def test_subgroups_reduce_as_numpy_does(size: int, stride: int) -> None:
    """In each kernel, all reductions; one is of a vector."""
    chosen = [(name, each, kind) for name, (each, kinds) in REDUCTIONS.items() for kind in kinds]
    cluster = "" if size == 32 else f"cluster(size = {size}, stride = {stride})"
    lines, arguments, arrays = [], [], []
    for i, (name, _, kind) in enumerate(chosen):
        memory = f"memref<64x{kind}>"
        arguments += [f"%p{i}: {memory}", f"%o{i}: {memory}"]
        lines.append(f"%v{i} = memref.load %p{i}[%t] : {memory}")
        lines.append(f"%r{i} = gpu.subgroup_reduce {name} %v{i} {cluster} : ({kind}) -> ({kind})")
        lines.append(f"memref.store %r{i}, %o{i}[%t] : {memory}")
        values = np.random.default_rng(i).integers(1, 3, 64).astype(upstream_cases.dtype(kind))
        arrays += [values, np.zeros_like(values)]
    pair = "vector<2xf32>"
    arguments += ["%pv: memref<128xf32>", "%ov: memref<128xf32>"]
    lines += ["%two = arith.constant 2 : index", "%at = arith.muli %t, %two : index"]
    lines.append(f"%vv = vector.load %pv[%at] : memref<128xf32>, {pair}")
    lines.append(f"%rv = gpu.subgroup_reduce add %vv {cluster} : ({pair}) -> ({pair})")
    lines.append(f"vector.store %rv, %ov[%at] : memref<128xf32>, {pair}")
    pairs = np.arange(128, dtype=np.float32)
    arrays += [pairs, np.zeros_like(pairs)]
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, 64), "sm_80")
    assert not kernel.emulate(*arrays, grid=(1, 1, 1)).findings

    def reduced(function: Any, values: Any) -> Any:
        clusters = values.reshape(-1, size, stride)  # lanes of one cluster are `stride` apart
        return np.broadcast_to(reduce(function, np.moveaxis(clusters, 1, 0))[:, None], clusters.shape)

    for (name, function, kind), given, got in zip(chosen, arrays[::2], arrays[1::2], strict=False):
        assert (got == reduced(function, given).ravel()).all(), (name, kind)
    for column in (0, 1):
        assert (arrays[-1][column::2] == reduced(np.add, pairs[column::2]).ravel()).all()


@pytest.mark.parametrize("threads", [32, 100, 64])
def test_blocks_reduce_as_numpy_does(threads: int) -> None:
    """Also with a part of a warp, in a loop, and by a function of one's own."""
    kinds = ("i32", "i64", "f32", "f64")
    chosen = [(name, each, kind) for name, (each, of) in REDUCTIONS.items() for kind in kinds if kind in of]
    chosen += [("minnumf", np.fmin, "f32"), ("maxnumf", np.fmax, "f64")]
    memory = {kind: f"memref<{threads}x{kind}>" for kind in kinds}
    lines, arguments, arrays = [], [], []
    for i, (name, _, kind) in enumerate(chosen):
        arguments += [f"%p{i}: {memory[kind]}", f"%o{i}: {memory[kind]}"]
        lines.append(f"%v{i} = memref.load %p{i}[%t] : {memory[kind]}")
        lines.append(f"%r{i} = gpu.all_reduce {name} %v{i} uniform {{}} : ({kind}) -> ({kind})")
        lines.append(f"memref.store %r{i}, %o{i}[%t] : {memory[kind]}")
        values = np.random.default_rng(i).integers(1, 3, threads).astype(upstream_cases.dtype(kind))
        arrays += [values, np.zeros_like(values)]
    arguments.append(f"%l: {memory['i32']}")
    lines += [
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        "%n = arith.constant 3 : index",
    ]
    lines += [
        "%w = arith.index_cast %t : index to i32",
        "%all = scf.for %k = %zero to %n step %one iter_args(%each = %w) -> (i32) {",
        "  %most = gpu.all_reduce %each uniform {",
        "  ^bb(%x: i32, %y: i32):",
        "    %z = arith.maxsi %x, %y : i32",
        "    gpu.yield %z : i32",
        "  } : (i32) -> (i32)",
        "  %next = arith.addi %most, %w : i32",
        "  scf.yield %next : i32",
        "}",
        f"memref.store %all, %l[%t] : {memory['i32']}",
    ]
    looped = np.zeros(threads, np.int32)
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, threads), "sm_80")
    assert not kernel.emulate(*arrays, looped, grid=(1, 1, 1)).findings
    for (name, function, kind), given, got in zip(chosen, arrays[::2], arrays[1::2], strict=True):
        assert (got == reduce(function, given)).all(), (name, kind)
    assert (looped == 3 * (threads - 1) + np.arange(threads)).all()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "%w = arith.constant 33 : i32; %r, %i = gpu.shuffle xor %x, %one, %w : i32; "
            'gpu.printf "%d", %r : i32',
            "must have a width of 1 to 32, got 33",
        ),
        (
            "%h = arith.trunci %x : i32 to i16; %r, %i = gpu.shuffle xor %h, %one, %one : i16",
            "on i16 isn't lowered",
        ),
        (
            "%r = gpu.all_reduce add %x {} : (i32) -> (i32)",
            "isn't lowered by any pass of Weft: use gpu.subgroup_reduce, and reduce its results through",
        ),
        (
            "%i = arith.index_cast %t : index to i32; "
            "%c = arith.cmpi slt, %i, %three : i32; scf.if %c {; "
            "%r = gpu.all_reduce add %x uniform {} : (i32) -> (i32); }",
            "all threads of the CTA to reach it together, but 'scf.if' depends on the thread",
        ),
        (
            "%f = arith.sitofp %x : i32 to f32; %r = arith.truncf %f upward : f32 to f16",
            "with a rounding mode",
        ),
        ("%f = arith.sitofp %x : i32 to f32; %r = arith.fptoui %f : f32 to i1", "on i1 isn't lowered"),
    ],
)
def test_other_mistakes_are_named(body: str, said: str) -> None:
    lines = ["%one = arith.constant 1 : i32", "%three = arith.constant 3 : i32", *body.split("; ")]
    with pytest.raises(WeftError, match=said) as caught:
        weft.compile(upstream_cases.kernel(["%x: i32"], lines, 32), "sm_80")
    last = max(i for i, line in enumerate(lines) if line.startswith("%r"))
    assert caught.value.diagnostics[0].location.line == 4 + last


_IN_KERNEL = [  # a line, what the kernel gets, and the message
    ("%r = arith.addf %a, %a : f128", "%a: f128", "on f128 isn't lowered .*: legal types are f16"),
    ("%r = arith.addi %a, %a : vector<[4]xi32>", "%a: vector<[4]xi32>", "use vectors of fixed sizes"),
    ("%r = ub.poison : complex<f80>", "", "'ub.poison' op on f80"),
    (
        "%r, %s = vector.deinterleave %a : vector<4xindex> -> vector<2xindex>",
        "%a: vector<4xindex>",
        "on index",
    ),
    ("%r = memref.load %a[%t] : memref<4xtf32>", "%a: memref<4xtf32>", "'memref.load' op on tf32"),
    (
        "%r, %s = arith.mulsi_extended %a, %a : vector<2x2xi32>",
        "%a: vector<2x2xi32>",
        "on vector<2x2xi32> isn't lowered .*: cast it to one dimension",
    ),
    ("memref.copy %a, %a : S to S", "%a: S", "on strided memrefs .*: use memref.load"),
    ("%r = memref.alloc() : memref<4xf32>", "", "memref.alloc' op isn't lowered .*: use an argument"),
    ("gpu.memcpy %a, %a : memref<4xf32>, memref<4xf32>", "%a: memref<4xf32>", "move it to a host function"),
    ("%r = gpu.block_dim x upper_bound 4294967297", "", "with upper_bound 4294967297 .*: it must be in 1"),
    ('gpu.printf "%f", %a : f8E5M2', "%a: f8E5M2", "on f8E5M2 isn't lowered .*: extend it with arith.extf"),
    (
        "%r = vector.load %a[%t] : memref<64xi1>, vector<4xi1>",
        "%a: memref<64xi1>",
        "elements are no whole bytes isn't lowered .*: use memref.load",
    ),
    ("%r = gpu.ballot %a : i16", "%a: i1", "on i16 isn't lowered .*: legal types are i32, i64"),
    (
        "%r = memref.atomic_rmw mulf %x, %a[%t] : (f32, memref<4xf32>) -> f32",
        "%a: memref<4xf32>, %x: f32",
        "of products isn't lowered .*: use memref.generic_atomic_rmw",
    ),
]


@pytest.mark.parametrize(("line", "arguments", "said"), _IN_KERNEL)
def test_what_would_end_the_process_is_refused(line: str, arguments: str, said: str) -> None:
    strided = "memref<?xf32, strided<[2]>>"
    text = upstream_cases.kernel([arguments], [line], 32).replace("S", strided)
    with pytest.raises(WeftError, match=said) as caught:
        unlowered.check(mlir.parse(text, context()))
    assert caught.value.diagnostics[0].location.line == 4


def test_host_code_without_kernels_is_no_kernel() -> None:
    text = "func.func @main() { %m = memref.alloc() : memref<4xf32> gpu.wait return }"
    unlowered.check(mlir.parse(text, context()))


_ATOMIC = {"addf": np.add, "maximumf": np.maximum, "minnumf": np.fmin, "addi": np.add, "mins": np.minimum}


def test_atomics_and_shuffles_of_vectors_compute_what_numpy_does() -> None:
    kinds = {**dict.fromkeys(upstream_cases.FLOATS, list(_ATOMIC)[:3])}
    kinds |= dict.fromkeys(upstream_cases.WORDS, list(_ATOMIC)[3:])
    chosen = [(name, kind) for kind, names in kinds.items() for name in names]
    arguments, lines, arrays = [], [], []
    for i, (name, kind) in enumerate(chosen):
        memory = f"memref<64x{kind}>"
        arguments += [f"%p{i}: {memory}", f"%q{i}: {memory}"]
        lines.append(f"%a{i} = memref.load %p{i}[%t] : {memory}")
        lines.append(f"%r{i} = memref.atomic_rmw {name} %a{i}, %q{i}[%t] : ({kind}, {memory}) -> {kind}")
        arrays += [upstream_cases.numbers(kind, 0), upstream_cases.numbers(kind, 1)]
    before = [each.copy() for each in arrays]
    arguments.append("%v: memref<128xf32>")
    lines += ["%two = arith.constant 2 : index", "%at = arith.muli %t, %two : index"]
    lines += ["%one = arith.constant 1 : i32", "%w = arith.constant 32 : i32"]
    lines.append("%x = vector.load %v[%at] : memref<128xf32>, vector<2xf32>")
    lines.append("%y, %is = gpu.shuffle xor %x, %one, %w : vector<2xf32>")
    lines.append("vector.store %y, %v[%at] : memref<128xf32>, vector<2xf32>")
    pairs = np.arange(128, dtype=np.float32)
    kernel = weft.compile(upstream_cases.kernel(arguments, lines, 64), "sm_80")
    assert not kernel.emulate(*arrays, pairs, grid=(1, 1, 1)).findings
    for (name, kind), x, y, got in zip(chosen, before[::2], before[1::2], arrays[1::2], strict=True):
        with np.errstate(all="ignore"):
            expected = _ATOMIC[name](y, x)
        assert ((got == expected) | ((got != got) & (expected != expected))).all(), (name, kind)
    assert (pairs.reshape(32, 2, 2) == np.arange(128).reshape(32, 2, 2)[:, ::-1]).all()


def test_formulas_of_refused_functions_are_right() -> None:
    def atan(x: float) -> float:
        if abs(x) > 1:
            return float(eval(upstream_operations.FORMULAS["atan"], names | {"x": x}))
        first, step = (each.partition("= ")[2] for each in upstream_operations.ATAN)
        y = eval(first, names | {"x": x})
        for _ in range(2):
            y = eval(step, names | {"x": x, "y": y})
        return float(y)

    names = vars(math) | {"absf": abs, "powf": pow, "atan": atan}
    of_y = {"atan2": [(3.0, -2.0), (-3.0, -0.5), (0.25, 8.0)]}
    for name, formula in upstream_operations.FORMULAS.items():
        arguments = {"acosh": (1.0, 1.001, 40.0), "atan": (1.5, -30.0)}.get(name, (-0.9, 1e-6, 0.7))
        for given in of_y.get(name, arguments):
            values = dict(zip("yx", given, strict=True)) if name in of_y else {"x": given}
            want = getattr(math, name)(*values.values())
            assert eval(formula, names | values) == pytest.approx(want, rel=1e-6), (name, values)
    assert atan(0.8) == pytest.approx(math.atan(0.8), rel=1e-6)


def test_directed_rounding_by_an_intrinsic() -> None:
    lines = [
        "%f = arith.sitofp %x : i32 to f32",
        '%r = llvm.call_intrinsic "llvm.nvvm.add.rp.f"(%f, %f) : (f32, f32) -> f32',
        'gpu.printf "%f", %r : f32',
    ]
    assert "add.rp.f32" in weft.compile(upstream_cases.kernel(["%x: i32"], lines, 32), "sm_80").ptx


def _named(dialect: str) -> set[str]:
    """The operations of a dialect that MLIR has."""
    classes = vars(import_module(f"{mlir.DISTRIBUTION}.dialects.{dialect}")).values()
    names = {getattr(each, "OPERATION_NAME", "") for each in classes if isinstance(each, type)}
    return {name for name in names if name.startswith(f"{dialect}.")}
