"""Which products are tried, each one kernel (two where rows lie anywhere), and on which cases.

Every type, layout, epilogue, kind of batch and of schedule is among them, each against several others.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle, islice, product
from typing import Any

import numpy as np
from products import CHIP, Case, Product

from weft.dialects.activations import ACTIVATIONS
from weft.dialects.schedule import AnySchedule, Schedule, Types, WarpgroupSchedule
from weft.launch.arrays import numpy_dtype
from weft.schedules import choice
from weft.target import Target

FP8 = ("f8E4M3FN", "f8E5M2")
NN, TN, TT = (False, False), (True, False), (True, True)

# Blocks with as much of K as fills a row of 128 bytes, except for the last of them.
LAID: dict[str, dict[str, Any]] = {
    "two warpgroups": {"block": (128, 128)},
    "wide": {"block": (128, 256), "stages": 2},
    "two products each": {"block": (256, 128), "stages": 2},
    "one warpgroup": {"block": (64, 64), "warpgroups": 1, "stages": 4},
    "three warpgroups": {"block": (192, 96), "warpgroups": 3},
    "few columns": {"block": (128, 32), "stages": 5, "group": 2},
    "columns of no power of two": {"block": (128, 160)},
    "swapped": {"block": (128, 16), "stages": 6, "swap": True},
    "swapped square": {"block": (64, 64), "warpgroups": 1, "swap": True},
    "swapped cluster": {"block": (128, 32), "cluster": (1, 2), "swap": True},
    "split in 2": {"block": (128, 128), "splits": 2},
    "split in 8": {"block": (64, 64), "warpgroups": 1, "splits": 8},
    "split and swapped": {"block": (64, 16), "warpgroups": 1, "stages": 8, "splits": 2, "swap": True},
    "3 parts": {"block": (128, 64), "global_splits": 3},
    "8 parts": {"block": (64, 128), "warpgroups": 1, "global_splits": 8},
    "5 parts swapped": {"block": (64, 16), "warpgroups": 1, "stages": 6, "global_splits": 5, "swap": True},
    "parts of a cluster": {"block": (128, 64), "global_splits": 2, "cluster": (2, 1)},
    "stream-K": {"block": (128, 128), "stream_k": True},
    "stream-K, one warpgroup": {"block": (64, 64), "warpgroups": 1, "stages": 4, "stream_k": True},
    "stream-K swapped": {"block": (64, 16), "warpgroups": 1, "stages": 6, "stream_k": True, "swap": True},
    "cluster down": {"block": (128, 128), "cluster": (2, 1)},
    "cluster across": {"block": (128, 64), "cluster": (1, 2)},
    "cluster of 4": {"block": (64, 64), "warpgroups": 1, "cluster": (2, 2)},
    "long cluster": {"block": (64, 128), "warpgroups": 1, "cluster": (4, 1)},
    "in turns": {"block": (128, 64), "stages": 4, "alternating": True},
    "in turns, swapped": {
        "block": (64, 64),
        "stages": 5,
        "cluster": (2, 1),
        "alternating": True,
        "swap": True,
    },
    "three in turns": {"block": (64, 96), "warpgroups": 3, "stages": 4, "alternating": True},
    "two panels": {"block": (128, 64), "depth": 256, "stages": 2},
    "half a panel": {"block": (128, 64), "depth": 64, "stages": 5},
    "a quarter of one": {"block": (64, 64), "warpgroups": 1, "depth": 32, "stages": 5},
}
MMA = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
    Schedule((64, 64, 64), (2, 2), 3),
)

TYPES = (
    *product(["f16"], ["f16"], ("f32", "f16", "bf16", *FP8)),
    *product(["bf16"], ["bf16"], ("f32", "f16", "bf16", *FP8)),
    *product(["f32"], ["f32"], ("f32", "f16", "bf16", "f8E4M3FN")),
    *product(FP8[:1], FP8[:1], ("f32", "f16", "bf16", "f8E4M3FN")),
    *product(FP8[1:], FP8[1:], ("f32", "bf16", "f8E5M2")),
    *product(FP8[:1], FP8[1:], ("f32", "bf16")),
    *product(FP8[1:], FP8[:1], ("f16", "bf16")),
    *product(("i8", "ui8"), ("i8", "ui8"), ["i32"]),
)

SIZES = (
    *(1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 37, 47, 53, 63, 64, 65, 71, 79, 95, 97, 101),
    *(113, 127, 128, 129, 131, 149, 160, 173, 191, 192, 193, 211, 239, 241, 255, 256, 257, 271, 293, 300),
)
LARGE = (
    (1031, 1033, 1039),
    (4099, 17, 257),
    (19, 8191, 131),
    (67, 73, 1 << 15),
    (1, 1, 1 << 15),
    (1023, 2049, 65),
    (3, 5, (1 << 15) - 1),
    (2048, 1536, 512),
)
_SMALL_SHAPES, _EACH = 240, 9


def laid(name: str, element: str) -> WarpgroupSchedule:
    """A schedule of `LAID` for a type of A."""
    given = {"warpgroups": 2, "stages": 3, "depth": 128, **LAID[name]}
    (m, n), depth = given.pop("block"), given.pop("depth")
    return WarpgroupSchedule((m, n, depth // numpy_dtype(element).itemsize), **given)


def fitting(types: Types) -> dict[str, WarpgroupSchedule]:
    """The schedules of `LAID` that multiply such types."""
    made = {name: laid(name, types.a) for name in LAID}
    return {name: s for name, s in made.items() if s.complaint(types, Target.of(CHIP)) is None}


def _over(products: list[Product], first: int = 0) -> list[Product]:
    """Each with a schedule that can multiply it: in turn those of `LAID`, from number `first` on."""
    order = islice(cycle(LAID), first, None)

    def following(types: Types) -> WarpgroupSchedule:
        fits = fitting(types)
        return fits[next(name for name in order if name in fits)]

    return [replace(each, schedule=following(each.types)) for each in products]


def _types_and_layouts() -> list[Product]:
    found = _over([Product(*types) for types in TYPES])
    sides = [
        Product(t, t, d, transposed=s) for s in (NN, TN, TT) for t, d in (("f16", "bf16"), ("bf16", "f32"))
    ]
    return [*found, *_over(sides, 3), *_over(sides, 16)]


def _schedules() -> list[Product]:
    """Each with a D that goes through shared memory, where the schedule has it, and with one that doesn't."""
    found = []
    for number, name in enumerate(LAID):
        output = ("bf16", "f32")[number % 2]
        found.append(Product("bf16", "bf16", output, laid(name, "bf16")))
    return found


def _epilogues() -> list[Product]:
    everything = {"added": (("c", "f32"), ("bias", "f16"), ("residual", "bf16")), "alpha": 0.5, "beta": -2.0}
    outputs = "bf16", "f16", "f32", "bf16", "f8E4M3FN"
    found = []
    for name, output in zip((None, *ACTIVATIONS), outputs, strict=True):
        found.append(Product("bf16", "bf16", output, activation=name, **everything))
        found.append(Product("f16", "f16", "f16", activation=name, added=(("bias", "f32"),)))
    found += [
        Product("f16", "f16", "f32", alpha=0.5, beta=2.0),  # D is read
        Product("bf16", "bf16", "bf16", alpha=-1.0, beta=1.0),
        Product("f32", "f32", "f32", added=(("c", "f32"), ("residual", "f32")), beta=4.0, activation="gelu"),
        Product("f8E4M3FN", "f8E4M3FN", "bf16", added=(("bias", "bf16"),), activation="silu"),
        Product("f8E5M2", "f8E4M3FN", "f8E5M2", alpha=0.25, added=(("residual", "f16"),), activation="relu"),
        Product("i8", "i8", "i32", added=(("c", "i32"), ("bias", "i32")), beta=1.0, activation="relu"),
        Product("ui8", "i8", "i32", added=(("residual", "i32"),), activation="relu"),
    ]
    return _over(found, 5)


def _promoted() -> list[Product]:
    plain = [Product("f8E4M3FN", "f8E4M3FN", d, promote=True) for d in ("bf16", "f32", "f16", "f8E4M3FN")]
    plain.append(Product("f8E5M2", "f8E4M3FN", "bf16", promote=True, beta=1.0, added=(("c", "f32"),)))
    blocks = [Product("f8E4M3FN", "f8E4M3FN", d, scaled=True) for d in ("f32", "bf16") * 5]
    blocks.append(
        Product("f8E5M2", "f8E5M2", "f32", scaled=True, added=(("bias", "f32"),), activation="relu")
    )
    return [*_over(plain, 2), *_over(blocks)]


def _many() -> list[Product]:
    batches = [
        Product("bf16", "bf16", "bf16", many="batch", added=(("bias", "f32"), ("residual", "bf16"))),
        Product("f16", "f16", "f32", many="one a", transposed=TN),
        Product("f8E4M3FN", "f8E4M3FN", "bf16", many="one b"),
        Product("f8E4M3FN", "f8E4M3FN", "bf16", many="batch", scaled=True),
        Product("i8", "i8", "i32", many="batch", beta=1.0),
        Product("bf16", "bf16", "f32", many="batch", alpha=0.5, beta=2.0, activation="silu"),
        Product("f32", "f32", "f32", many="one b"),
    ]
    kinds = [
        Product("bf16", "bf16", "bf16"),
        Product("f8E4M3FN", "f8E4M3FN", "bf16", scaled=True),
        Product("f16", "f16", "f32", transposed=NN, added=(("bias", "f32"),), activation="relu"),
        Product("f8E4M3FN", "f8E5M2", "f32", promote=True),
        Product("f8E4M3FN", "f8E4M3FN", "f32", scaled=True),
        Product("i8", "i8", "i32"),
    ]
    groups = [replace(each, many=many) for many in ("rows", "masked") for each in kinds]
    return [*_over(batches, 9), *_over(groups, 1)]


def _mma() -> list[Product]:
    """Those of `mma.sync`, with rows where TMA takes them, and others that go there as TMA doesn't."""
    shared = (("residual", "f16"), ("bias", "bf16"))
    direct = [
        Product("bf16", "bf16", "f32", MMA[0]),
        Product("f16", "f16", "f16", MMA[1], transposed=NN),
        Product("f16", "f16", "f8E5M2", MMA[2], added=shared, activation="gelu_tanh"),
        Product("bf16", "bf16", "bf16", MMA[2], rows="dense", many="batch"),
    ]
    turned = [
        Product("bf16", "bf16", "bf16", rows="dense"),
        Product("f16", "f16", "f32", rows="shifted", transposed=NN),
        Product("bf16", "bf16", "f16", rows="dense", added=shared, activation="relu"),
        Product("f16", "f16", "f8E4M3FN", rows="shifted", alpha=0.5, beta=2.0),
        Product("bf16", "bf16", "f32", rows="dense", many="one a"),
    ]
    return [*direct, *_over(turned, 7)]


def _chosen() -> list[Product]:
    """The schedules that products of some sizes get."""
    kinds = (("bf16",) * 3, ("f8E4M3FN", "f8E4M3FN", "bf16"), ("i8", "i8", "i32"))
    shapes = (1, 4096, 4096), (16, 512, 8192), (300, 300, 300), (512, 512, 1 << 15)
    found = [Product("f16", "f16", "f16"), Product("f32", "f32", "f32")]
    for kind, shape in product(kinds, shapes):
        plain = Product(*kind)
        found.append(replace(plain, schedule=_choice(shape, plain.types)))
    return list(dict.fromkeys(found))


@cache
def _choice(shape: tuple[int, int, int], types: Types) -> AnySchedule:
    return choice.choose(*shape, types, CHIP)


def _factors() -> list[Product]:
    """Those whose kernels read alpha."""
    added = (("bias", "f32"), ("residual", "bf16"))
    found = [
        Product("bf16", "bf16", "bf16", factors="one"),
        Product("bf16", "bf16", "bf16", factors="each", many="batch", added=added, activation="relu"),
        Product("f16", "f16", "f32", factors="one", many="one b", beta=2.0),
        Product("f8E4M3FN", "f8E4M3FN", "bf16", factors="each", many="rows", scaled=True),
        Product("f8E4M3FN", "f8E5M2", "f32", factors="each", many="masked", promote=True),
        Product("f16", "f16", "f16", factors="each", many="one a", rows="dense"),
    ]
    return [*_over(found, 3), Product("bf16", "bf16", "f32", MMA[1], factors="each", many="batch")]


def products() -> list[Product]:
    """All of them."""
    parts = (_types_and_layouts, _schedules, _epilogues, _promoted, _many, _mma, _chosen, _factors)
    return list(dict.fromkeys(each for part in parts for each in part()))


def small_shapes() -> list[tuple[int, int, int]]:
    """M, N and K around the edges of tiles, primes, and others: no two the same."""
    rng = np.random.default_rng(1)
    found: dict[tuple[int, int, int], None] = {}
    while len(found) < _SMALL_SHAPES:
        m, n, k = (int(size) for size in rng.choice(SIZES, 3))
        found[m, n, k] = None
    return list(found)


def cases() -> Iterator[tuple[Product, list[Case]]]:
    """Every product with its cases: shapes in turn, each filled in two ways, which take turns too."""
    shapes, large = cycle(small_shapes()), cycle(LARGE)
    for number, each in enumerate(products()):
        chosen = list(islice(shapes, _EACH))
        if not each.activation and not each.many:
            chosen.append(next(large))
        ways = islice(cycle(each.regimes), number % len(each.regimes), None)
        yield each, [Case(shape, next(ways)) for shape in chosen for _ in range(2)]
