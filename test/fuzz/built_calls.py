"""Calls that build modules, with values of every kind: types, kernels and operations of tile."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

# What `scope` has, by the kind of argument that it is meant for.
_KINDS = {
    "matrix": "A B D R Fixed",
    "buffer": "buffer stages row_buffer peer",
    "fragment": "a b d wide",
    "i32": "i j",
    "index": "n",
    "map": "map maps",
    "ring": "ring",
    "pointer": "pointer",
    "type": "Buffer Stages A16 B16 D32",
}
# Functions of `tile`, and the kinds of their arguments; ~ begins an option, ! one that must be given.
_BUILDERS = {
    "alloc": "type ~over:buffer",
    "address": "buffer",
    "stage": "buffer i32",
    "slice_": "buffer i32 i32 shape",
    "peer": "buffer i32",
    "copy": "matrix i32 i32 buffer",
    "copy_async": "matrix i32 i32 buffer ~vector_bytes:count ~barrier:pointer",
    "copy_out": "buffer matrix i32 i32",
    "copy_multicast": "map i32 i32 buffer pointer i32",
    "load": "matrix i32 i32 type ~transpose:flag ~vector_bytes:count",
    "load_row": "matrix i32 type ~vector_bytes:count",
    "store": "fragment matrix i32 i32 ~vector_bytes:count",
    "store_async": "buffer map i32 i32",
    "add_async": "buffer map i32 i32",
    "from_lane": "fragment type",
    "to_lane": "fragment",
    "gemm": "fragment fragment fragment type ~alpha:number ~beta:number",
    "gemm_async": "buffer buffer fragment i32 ~transpose_a:flag ~transpose_b:flag ~cta_group:count "
    "~mma_m:count ~mma_n:count ~use_a_tmem:flag ~weight_stationary:flag ~collector:text ~n:i32",
    "wait_gemm": "fragment fragment ~pending:count",
    "pin": "fragment",
    "matmul": "matrix matrix matrix ~alpha:number ~bias:matrix ~activation:text ~schedule:text ~promote:flag",
    "tensor_map": "matrix type ~l2_promotion:text ~l2_eviction:text",
    "member": "map i32",
    "make_ring": "count !consumers:count ~producers:count ~filled_by:agent ~emptied_by:agent",
    "acquire": "ring i32 i32",
    "await_": "ring i32 i32",
    "advance": "ring i32 i32",
    "commit": "ring i32",
    "expect": "ring i32 count",
    "full_barrier": "ring i32",
    "release": "ring i32",
    "release_peer": "ring i32 i32",
    "claim": "matrix index i32 i32 !shares:count",
    "await_others": "matrix index i32",
    "await_flag": "matrix index i32 i32 ~proxy:text",
    "signal": "matrix index i32",
    "is_last": "matrix index i32",
    "remote": "i32 type",
    "send_async": "buffer matrix i32",
}
_PLAIN = {
    "shape": ("(8,8)", "(64,64)", "(16,)"),
    "count": ("1", "2", "3", "8", "16"),
    "agent": ("'tma'", "'threads'", "'warps'", "'warpgroups'", "'mma'"),
    "flag": ("True", "False"),
    "number": ("1.0", "0.0", "2.0"),
    "text": ("'relu'", "'128B'", "'first'", "'{block = array<i64: 64, 64, 32>}'"),
}
_EVERY = " ".join(_KINDS.values()).split()

Odd = Callable[..., str]


def make(chance: random.Random, odd: Odd, layout: Callable[[random.Random], str]) -> Any:
    """What is built, its arguments and options, as `mutated_calls.make` has them."""
    return chance.choice((_tile, _tile, _tile, _memref, _kernel, _type))(chance, odd, layout)


def _argument(chance: random.Random, odd: Odd, kind: str) -> str:
    chosen = chance.random()
    if chosen < 0.12:
        return odd(chance)
    if chosen < 0.24:
        return chance.choice(_EVERY)
    return chance.choice(_PLAIN.get(kind) or _KINDS[kind].split())


def _tile(chance: random.Random, odd: Odd, _: Any) -> Any:
    name = chance.choice(sorted(_BUILDERS))
    marked = {mark: [each for each in _BUILDERS[name].split() if each[0] == mark] for mark in "~!"}
    given = [each for each in _BUILDERS[name].split() if each[0] not in marked]
    left_out = marked["~"] if chance.random() < 0.5 else []
    options = [each[1:].split(":") for mark in marked for each in marked[mark] if each not in left_out]
    return (
        f"tile.{name}",
        [_argument(chance, odd, kind) for kind in given],
        {option: _argument(chance, odd, kind) for option, kind in options},
    )


def _memref(chance: random.Random, odd: Odd, _: Any) -> Any:
    shape = odd(chance, "'?x?'", "(4,'?')", "'64x64'", "'4x'", "(2**40,4)")
    element = odd(
        chance, "'f32'", "'bf16'", "'tuple<'*9", "'vector<4xf16>'", "'!llvm.ptr'", "'index'", "'f32>'"
    )
    return "weft.memref", [shape, element], {"strides": odd(chance, "None", "(4,1)", "('?',1)", "(-1,0)")}


def _kernel(chance: random.Random, odd: Odd, _: Any) -> Any:
    arguments = odd(chance, "[Matrix]", "[Matrix,I32]", "[]", "(Matrix,)", "[Buffer]", "[A16,Matrix]")
    name, block = (
        odd(chance, "'k'", "'other'", "'a b'", "'k\\n'"),
        odd(chance, "(32,1,1)", "(32,)", "(128,1,1)"),
    )
    options = {
        "block": block,
        "grid": odd(chance, "(1,1,1)", "None"),
        "chip": odd(chance, "'sm_90a'", "None"),
    }
    if chance.random() < 0.3:
        return "module.func", [name, arguments], {}
    return "module.kernel", [name, arguments], options


def _type(chance: random.Random, odd: Odd, layout: Callable[[random.Random], str]) -> Any:
    name = chance.choice(("types.FragmentType.of", "types.BufferType.of", "types.MapType.of"))
    if name.startswith("types.Map"):
        return name, [_argument(chance, odd, "type")], {}
    space = ["'shared'"] if name == "types.BufferType.of" else []
    return name, [odd(chance, "(16,16)", "(64,64)"), odd(chance, "f16", "f32"), layout(chance), *space], {}


@contextmanager
def scope(module: Any) -> Any:
    """In the block a kernel of the module is being built: the names of its values, and of types."""
    import weft
    from weft.dialects import tile
    from weft.mlir import arith, ir

    def parse(kind: str) -> Any:
        return ir.Type.parse(kind)

    names = {
        "Buffer": parse(_BUFFER.format("64, 64", "S[(64,64):(64,1)] xor 128B")),
        "Stages": parse(_BUFFER.format("3, 64, 64", "S[(3,64,64):(4096,64,1)] xor 128B")),
        "A16": parse(_FRAGMENT.format("16x16", "f16", "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]")),
        "B16": parse(_FRAGMENT.format("16x8", "f16", "S[(2,4,2,8):(2,1@laneid,1,4@laneid)]")),
        "D32": parse(_FRAGMENT.format("16x8", "f32", "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")),
        "Matrix": weft.memref("?x?", "f16"),
        "f16": parse("f16"),
        "f32": parse("f32"),
        "I32": parse("i32"),
    }
    kinds = [weft.memref(s, t) for s, t in (("?x?", "f16"), ("?x?", "f16"), ("?x?", "f32"), ("?", "f32"))]
    with module.kernel("built", [*kinds, weft.memref("64x64", "f16")], block=(32, 1, 1)) as values:
        names |= dict(zip(("A", "B", "D", "R", "Fixed"), values, strict=True))
        names["i"], names["j"] = (arith.constant(names["I32"], value) for value in (0, 1))
        names["n"] = arith.constant(ir.IndexType.get(), 0)
        names["buffer"], names["stages"] = tile.alloc(names["Buffer"]), tile.alloc(names["Stages"])
        names["row_buffer"] = tile.stage(names["stages"], names["i"])
        names["peer"] = tile.peer(names["buffer"], names["i"])
        names["pointer"] = tile.address(names["buffer"])
        for name, source, kind in (("a", "A", "A16"), ("b", "B", "B16"), ("d", "D", "D32")):
            names[name] = tile.load(names[source], names["i"], names["j"], names[kind])
        names["wide"] = tile.to_lane(names["d"])
        names["map"] = tile.tensor_map(names["A"], names["Buffer"])
        names["maps"] = names["map"]
        names["ring"] = tile.make_ring(3, consumers=1)
        yield names


_BUFFER = '!tile.buffer<array<i64: {}>, f16, #tile.layout<"{}">, "shared">'
_FRAGMENT = 'tensor<{}x{}, #tile.layout<"{}">>'


def attempt(what: str, value: Callable[[str, dict[str, Any]], Any], args: Any, options: Any) -> str:
    """Builds it in a module of its own, and prints that."""
    import weft

    with weft.Module() as module:
        # A block for a kernel can't be in another kernel's.
        with scope(module) as names:
            names["module"] = module
            given = [value(each, names) for each in args]
            named = {name: value(each, names) for name, each in options.items()}
            if not what.startswith("module."):
                value(what, names)(*given, **named)
        if what.startswith("module."):
            with value(what, names)(*given, **named):
                pass
    str(module)
    return f"{what} made"
