"""Mutates calls of Weft from Python: products, kernels, layouts, types, and the emulator's arguments.

An input is JSON: what is called, and its arguments as expressions of Python. What is given may be anything;
the answer is a result or a `WeftError`. Exceptions of Python's own are documented for two mistakes alone: a
call whose arguments don't match the signature (TypeError), and more memory than there is (MemoryError).
"""

import functools
import json
import random
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import built_calls

# Whatever a caller may give in place of something else; `_names` has the names.
_ODD = str.split("""
    None True False 0 1 -1 2 3 7 8 128 2**15 2**31-1 2**31 -2**31 2**40 2**63 2**64 -2**70 10**5000 0.5 -0.0
    1e300 nan inf 1j '' 'x' 'relu' 'bf16' '?' '\\ud800' 'a'*300 'x"y' '16x?' b'' b'x' bytes(16) [] [1]
    [1,2,3] [None] (1,) (1,1,1) (0,0,0) (-1,1,1) (2**20,1,1) (2**40,1,1) (1.5,1,1) ('1','1','1') {} {'a':1}
    {1} np.zeros(4) np.zeros((2,2),'f2') np.array(1.0) np.array('x') np.float16(1) np.int8(3)
    np.uint64(2**63) np.bool_(True) np.datetime64('2020') np.array([object()]) np.zeros(4,'>i4')
    np.zeros(4,'f4,i4') np.zeros(4,'U3') np.ma.zeros(4) np.zeros(0) object() Odd() Unhashable() range(3)
    iter([1]) (lambda:0) type ... NotImplemented float np.ndarray weft weft.Epilogue() memoryview(b'abcd')
    np.str_('x') np.zeros((1,1,1,1)) np.void((1,object()),'i4,O') Decimal('1e400') Fraction(1,3) interface()
    interface(shape=None) interface(data=(0,True)) interface(typestr='O') interface(strides=(1,)) Broken()
    Capsule() torch.zeros(4,4) torch.zeros(4,4,dtype=torch.bfloat16) torch.zeros(4,4).to_sparse()
    torch.zeros(4,4,device='meta') torch.zeros(4,4,requires_grad=True)
    torch.zeros(4,4,dtype=torch.complex64) torch.Tensor
""")
_DTYPES = str.split("""
    np.float16 np.float16 np.float16 ml.bfloat16 ml.bfloat16 np.float32 ml.float8_e4m3fn ml.float8_e5m2
    np.int8 np.uint8 np.int32 np.float64 np.int64 np.bool_ ml.int4 ml.float4_e2m1fn ml.float8_e8m0fnu
    ml.float8_e4m3b11fnuz np.complex64 object 'M8[s]' 'S4' '>f2' 'f2,f2'
""")
_SIZES = (1, 1, 2, 7, 8, 16, 16, 24, 32, 33, 64, 65, 128)
_CHANGES = str.split("""
    {}[::-1] {}[:,::-1] {}[::2] {}[:,::2] {}.T {}[:0] {}[None] {}[...,None] {}[0] {}.reshape(-1)
    {}.copy('F') strided({},(0,0)) strided({},(1,1)) strided({},(2,2)) strided({},(4,3)) strided({},(-2,2))
    strided({},(2**40,2)) np.broadcast_to({}[:1],(2**31,{}.shape[-1])) np.broadcast_to({},(3,*{}.shape))
    readonly({}) memoryview({}) torch.from_numpy({}.astype('f2')) torch.from_numpy({}.astype('f4')).t()
    torch.from_numpy({}.astype('f4')).bfloat16() torch.nn.Parameter(torch.from_numpy({}.astype('f4')))
    {}.tolist() Dlpack({}) shifted({}) {}.view(np.matrix) np.ma.array({})
""")
_LAYOUTS = str.split("""
    S[(2,8,4,2):(2,4@laneid,1@laneid,1)] S[(16,16):(16,1)] S[(4):(0)] S[(4):(-1)] S[(8,64):(64,1)]%xor%128B
    S[] S[(2,2):(1@warpid,1)]%+%R[(2):(4@laneid)] S[(2):(1)]%+%O[3] S[(0):(1)] S[(2**40):(1)]
    S[(99999999999999999999):(1)] S[(1099511627776,1099511627776):(1,1)] S[(2,2):(1@nowhere,1)] S[(2,2):(1)]
    S[(8):(1)]%xor%7B x é S[(4,4:(1,2)]
""")


def begin() -> None:
    """Imports what the attempts need, and compiles the kernel that is called."""
    warnings.simplefilter("ignore")
    _names()


@functools.cache
def _names() -> dict[str, Any]:
    """What the expressions of an input know."""
    import ctypes
    from decimal import Decimal
    from fractions import Fraction
    from types import SimpleNamespace

    import ml_dtypes
    import numpy as np

    import weft
    from weft import emulator, layout
    from weft.dialects import tile, tile_types
    from weft.dialects.schedule import Schedule, WarpgroupSchedule
    from weft.isa import tensor_map
    from weft.launch import arrays, kernel  # noqa: F401
    from weft.multiply import matmul  # noqa: F401

    class Odd:
        def __repr__(self) -> str:
            raise KeyError("repr")

        def __index__(self) -> int:
            raise TypeError("index")

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("eq")

    class Broken:
        def __dlpack__(self, **_: Any) -> Any:
            raise ValueError("dlpack")

        @property
        def __cuda_array_interface__(self) -> Any:
            raise KeyError("interface")

    class Capsule:
        def __dlpack__(self, **_: Any) -> Any:
            return ctypes.py_object()

    class Dlpack:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **given: Any) -> Any:
            return self.array.__dlpack__(**given)

    def interface(**changes: Any) -> Any:
        given = {"shape": (4, 4), "typestr": "<f2", "data": (4096, False), "version": 3, **changes}
        return SimpleNamespace(__cuda_array_interface__=given)

    def strided(array: Any, strides: Any) -> Any:
        return np.lib.stride_tricks.as_strided(array, strides=strides)

    def readonly(array: Any) -> Any:
        array.flags.writeable = False
        return array

    def shifted(array: Any) -> Any:
        return np.frombuffer(bytes(array.nbytes + 1), np.uint8)[1:].view(array.dtype).reshape(array.shape)

    names = {"np": np, "ml": ml_dtypes, "weft": weft, "nan": float("nan"), "inf": float("inf")}
    names |= {"Decimal": Decimal, "Fraction": Fraction, "emulator": emulator, "layout": layout, "tile": tile}
    names |= {"types": tile_types, "Schedule": Schedule, "WarpgroupSchedule": WarpgroupSchedule}
    names |= {"arrays": arrays, "maps": tensor_map, "ptx": emulator.Module(_PTX)}
    for made in (Odd, Unhashable, Broken, Capsule, Dlpack, interface, strided, readonly, shifted):
        names[made.__name__] = made
    try:
        import torch
    except ImportError:
        names["torch"] = SimpleNamespace()
    else:
        torch.set_num_threads(1)
        names["torch"] = torch
    return names


_PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .f32 f, .param .b8 s[16], .param .u32 u, .param .align 64 .b8 m[128]) {
.reg .b64 %d<4>; .reg .b32 %r<4>; ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1;
st.global.u32 [%d2], %r1; ret; }
"""  # noqa: E501
_KERNEL = """
func.func @product(%A: memref<?x?xf16, strided<[?, 1]>>, %B: memref<?x?xf16, strided<[?, 1]>>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16, strided<[?, 1]>>, memref<?x?xf16, strided<[?, 1]>>, memref<?x?xf32>) -> ()
  return
}
"""  # noqa: E501


@functools.cache
def _kernel() -> Any:
    """Compiled in each process that calls it: compiling starts threads, which a fork wouldn't take along."""
    import weft

    return weft.compile(_KERNEL, arch="sm_80")


def _array(chance: random.Random, *shape: int) -> str:
    dtype = chance.choice(_DTYPES[:9]) if chance.random() < 0.9 else chance.choice(_DTYPES)
    sizes = [size if chance.random() < 0.95 else chance.choice(_SIZES) for size in shape]
    made = f"np.ones(({','.join(map(str, sizes))},), {dtype})"
    if chance.random() < 0.35:
        made = f"({chance.choice(_CHANGES).replace('{}', made)})"
    return chance.choice(_ODD) if chance.random() < 0.05 else made


def _odd(chance: random.Random, *usual: str) -> str:
    return chance.choice(_ODD if chance.random() < 0.4 or not usual else usual)


def _product(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    m, n, k = (chance.choice(_SIZES) for _ in "mnk")
    usual = chance.random() < 0.5  # most odd things are found beside usual ones
    shapes = (m, k), (k, n)
    a, b = ((f"np.ones(({x},{y}),np.float16)" if usual else _array(chance, x, y)) for x, y in shapes)
    options = {
        "c": lambda: _array(chance, m, n),
        "out": lambda: _array(chance, m, n),
        "alpha": lambda: _odd(chance, "2.0", "1", "np.array(2,'f4')", "np.full(2,2,'f4')"),
        "beta": lambda: _odd(chance, "0.0", "1.0"),
        "transpose_a": lambda: _odd(chance, "True", "False"),
        "transpose_b": lambda: _odd(chance, "True", "False"),
        "promote": lambda: _odd(chance, "True", "False"),
        "out_dtype": lambda: _odd(chance, "'f32'", "'f16'", "'f8E4M3FN'"),
        "stream": lambda: _odd(chance, "None", "0"),
        "schedule": lambda: _schedule(chance),
        "epilogue": lambda: _epilogue(chance, m, n),
        "scales": lambda: _odd(
            chance, f"({_array(chance, m, -(-k // 128))},{_array(chance, -(-n // 128), -(-k // 128))})"
        ),
        "groups": lambda: _odd(chance, f"np.full({m},{_odd(chance, '0')},np.int32)", _array(chance, m)),
    }
    chosen = chance.sample(sorted(options), chance.choice((0, 1, 1, 1, 2, 3)))
    return "weft.matmul", [a, b], {name: options[name]() for name in chosen}


def _schedule(chance: random.Random) -> str:
    own = f"Schedule({_odd(chance, '(64,64,32)')},{_odd(chance, '(2,2)')},{_odd(chance, '3')})"
    wide = f"WarpgroupSchedule({_odd(chance, '(64,64,64)')},{_odd(chance, '1')},{_odd(chance, '3')})"
    return _odd(chance, own, wide, "'{block = array<i64: 64, 16, 64>, warpgroups = 1, stages = 3}'")


def _epilogue(chance: random.Random, m: int, n: int) -> str:
    parts = {
        "bias": _array(chance, n),
        "activation": _odd(chance, repr("relu")),
        "residual": _array(chance, m, n),
    }
    name = chance.choice(sorted(parts))
    return _odd(chance, f"weft.Epilogue({name}={parts[name]})")


def _call(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    m, n, k = (chance.choice(_SIZES) for _ in "mnk")
    args = [f"np.ones(({m},{k}),np.float16)", f"np.ones(({k},{n}),np.float16)"]
    args.append(f"np.ones(({m},{n}),np.float32)")
    if chance.random() < 0.7:
        at = chance.randrange(3)
        args[at] = _array(chance, *((m, k), (k, n), (m, n))[at])
    if chance.random() < 0.1:
        args = args[: chance.randrange(4)] + [chance.choice(_ODD)] * chance.randrange(2)
    what = chance.choice(("kernel", "kernel", "kernel.emulate", "kernel.taking", "kernel.ir"))
    if what == "kernel.ir":
        return what, [chance.choice(_ODD)], {}
    names = {
        "kernel": ("grid", "block", "stream", "on"),
        "kernel.emulate": ("grid", "block", "progress", "seed", "trace"),
    }.get(what, ())
    chosen = chance.sample(names, min(len(names), chance.choice((0, 1, 1, 2))))
    given = {name: _odd(chance) for name in chosen if name != "trace"}
    # What a caller's own function raises is the caller's.
    odd = {
        "grid": _LONG,
        "progress": ("float", "type", "np.ndarray", "torch.Tensor", "(lambda:0)"),
    }
    return what, args, {name: value for name, value in given.items() if value not in odd.get(name, ())}


_LONG = ("2**15", "(2**20,1,1)", "2**31-1")  # legal grids, which take the emulator minutes


def _built(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    return built_calls.make(chance, _odd, _layout)  # type: ignore[no-any-return]


def _layout(chance: random.Random) -> str:
    text = chance.choice(_LAYOUTS).replace("%", " ")
    if chance.random() < 0.5:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(("", *"0123456789()[],:@+ xSROB-", "9" * 30, "é")) + text[at + 1 :]
    return f"layout.Layout.parse({text!r})" if chance.random() < 0.8 else repr(text)


def _of_layout(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    names = {
        "apply": 2,
        "places": 2,
        "group": 1,
        "canonical": 0,
        "tile": 3,
        "tile_to": 2,
        "slice": 3,
        "compose": 1,
        "inverse": 1,
        "invert": 0,
        "is_bijective": 1,
        "lane_elements": 2,
        "span": 1,
    }
    name = chance.choice(sorted(names))
    usual = ("(16,16)", "(4,)", "(0,0)", "0", "{'laneid':32,'m':4}", "'laneid'", _layout(chance), "(2**40,)")
    return f"{_layout(chance)}.{name}", [_odd(chance, *usual) for _ in range(names[name])], {}


def _emulated(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    args = ["np.zeros(64,np.int32)", "1.0", "bytes(16)", "3", "bytes(128)"]
    fields = _odd(chance, "{0:b'x'}", "{8:np.zeros(4)}")
    odd = f"emulator.Struct({_odd(chance, '16')},{fields})", _map(chance), _array(chance, 8, 8)
    args[chance.randrange(5)] = chance.choice((chance.choice(_ODD), *odd))
    names = ("grid", "block", "cluster", "shared_bytes", "sanitize", "seed", "arithmetic", "dependent")
    options = {name: _odd(chance) for name in chance.sample(names, chance.choice((0, 0, 1, 2)))}
    if options.get("grid") in _LONG:
        del options["grid"]
    return "ptx.launch", ["'k'"], {"args": f"[{','.join(args)}]", **options}


def _map(chance: random.Random) -> str:
    given = {
        "dtype": "'FLOAT16'",
        "dims": "(64,64)",
        "strides_bytes": "(128,)",
        "box": "(16,16)",
        "swizzle": "'32B'",
        "element_strides": "(1,1)",
        "interleave": "'none'",
        "oob_fill": "'zero'",
    }
    for name in chance.sample(sorted(given), chance.choice((0, 1, 1, 2))):
        given[name] = _odd(chance, "(64,)", "(64,64,64)", "(0,1)", "(2**33,1)", "'128B'", "(17,1)")
    buffer = _odd(chance, "np.zeros((64,64),np.float16)", "4096")
    return f"emulator.TensorMap.tiled({buffer},{','.join(f'{n}={v}' for n, v in given.items())})"


def _other(chance: random.Random) -> tuple[str, list[str], dict[str, str]]:
    key = chance.choice(("shape", "typestr", "data", "strides", "mask"))
    return chance.choice(
        (
            ("arrays.view", [_array(chance, 4, 4)], {}),
            ("arrays.view", [f"interface({key}={_odd(chance, '(4,4)', '(4096,True)')})"], {}),
            ("arrays.mlir_type", [chance.choice((*_ODD, *_DTYPES))], {}),
            ("arrays.numpy_dtype", [_odd(chance)], {}),
            ("emulator.Module", [_odd(chance)], {}),
            (_map(chance).partition("(")[0] + "_of", [_map(chance)], {}),
            ("WarpgroupSchedule", [_odd(chance, "(64,64,64)"), _odd(chance, "1"), _odd(chance, "3")], {}),
        )
    )


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    kinds = (_product, _product, _product, _call, _call, _of_layout, _of_layout, _emulated, _emulated, _other)
    what, args, options = chance.choice((*kinds, _built, _built, _built))(chance)
    return json.dumps([what, args, options])


class _NotMade(Exception):
    """An argument of an input that Python or another library makes none of."""


class _Reached(Exception):
    """A product is about to be compiled."""


@contextmanager
def _compiling(really: bool) -> Iterator[None]:
    """In the block, products end before they are compiled, which takes seconds, unless they `really` are."""
    from weft.multiply import product_kernel

    compiled = product_kernel.compiled

    def reached(*_: Any, **__: Any) -> None:
        raise _Reached

    if not really:
        product_kernel.compiled = reached  # type: ignore[assignment]
    try:
        yield
    finally:
        product_kernel.compiled = compiled


def attempt(text: str) -> str:
    """Calls it."""
    from weft.errors import WeftError

    what, args, options = json.loads(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if what.startswith(("weft.memref", "types.", "tile.", "module.")):
                return built_calls.attempt(what, _value, args, options)
            given = [_value(each) for each in args]
            named = {name: _value(each) for name, each in options.items()}
            with _compiling(what != "weft.matmul" or zlib.crc32(text.encode()) % 40 == 0):
                _function(what)(*given, **named)
        except _Reached:
            return "weft.matmul reached its kernel"
        except WeftError:
            return f"{what.split('(')[0]} refused"
        except (_NotMade, MemoryError):
            return "not made"
    return f"{what.split('(')[0]} done"


def _function(what: str) -> Any:
    if what.startswith("kernel"):
        return functools.reduce(getattr, what.split(".")[1:], _kernel())
    if what.endswith("_of"):
        return lambda made: made.encode(1 << 33)
    return _value(what)


def _value(expression: str, scope: dict[str, Any] | None = None) -> Any:
    """The value of an expression of an input; errors of Weft pass, those of NumPy and PyTorch don't."""
    from weft.errors import WeftError

    try:
        return eval(expression, _names() | (scope or {}))  # of this file's own making
    except WeftError:
        raise
    except Exception as error:
        trace, inside = error.__traceback__, False
        while trace is not None:
            inside = inside or "weft" in trace.tb_frame.f_globals.get("__name__", "").split(".")[:1]
            trace = trace.tb_next
        if inside:
            raise
        raise _NotMade(expression) from error
