"""Quick builders build what upstream's do, and leave to these what they don't know."""

import importlib

import pytest

from weft import mlir
from weft.dialects import context
from weft.mlir import arith, ir, llvm, quick_builders

UPSTREAM = {
    name: importlib.import_module(f"{mlir.DISTRIBUTION}.dialects.{name}") for name in ("arith", "llvm")
}
QUICK = {"arith": arith, "llvm": llvm}
REPLACED = [
    (dialect, name)
    for dialect, module in QUICK.items()
    for name, value in vars(module).items()
    if getattr(value, "__module__", None) == quick_builders.__name__
]
FLOATS = ("addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf")


class Values:
    """Values of types that operations take, in the current block."""

    def __init__(self):
        make = UPSTREAM["arith"].constant
        self.i32, self.i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))
        self.f16, self.f32 = ir.F16Type.get(), ir.F32Type.get()
        self.pointer = ir.Type.parse("!llvm.ptr<3>")
        self.true = make(ir.IntegerType.get_signless(1), 1)
        self.x, self.y, self.wide = make(self.i32, 3), make(self.i32, -5), make(self.i64, 7)
        self.index = make(ir.IndexType.get(), 2)
        self.half, self.f, self.g = make(self.f16, 1.0), make(self.f32, 2.0), make(self.f32, 3.0)
        self.address = UPSTREAM["llvm"].inttoptr(self.pointer, self.x)
        self.pair = UPSTREAM["llvm"].mlir_undef(ir.Type.parse("!llvm.struct<(i32, f32)>"))
        lanes = ir.VectorType.get([4], self.i32)
        splat = ir.DenseElementsAttr.get_splat(lanes, ir.IntegerAttr.get(self.i32, 1))
        self.vector = make(lanes, splat)


def arguments(dialect, name, v):
    """What the builders of one operation are called with."""
    given = {
        "constant": [(v.i32, 7), (v.i64, -1), (ir.IndexType.get(), 5), (v.f32, 2.0), (v.true.type, True)],
        "cmpi": [(arith.CmpIPredicate.slt, v.x, v.y), (arith.CmpIPredicate.eq, v.vector, v.vector)],
        "select": [(v.true, v.x, v.y), (v.true, v.f, v.g)],
        "index_cast": [(v.i32, v.index), (ir.IndexType.get(), v.x)],
        "extui": [(v.i64, v.x)],
        "extsi": [(v.i64, v.x)],
        "trunci": [(v.i32, v.wide)],
        "bitcast": [(v.f32, v.x)],
        "extf": [(v.f32, v.half)],
        "truncf": [(v.f16, v.f)],
        "load": [(v.i32, v.address)],
        "ptrtoint": [(v.i32, v.address)],
        "inttoptr": [(v.pointer, v.x)],
        "extractvalue": [(v.i32, v.pair, [0]), (v.f32, v.pair, [1])],
        "getelementptr": [
            (v.pointer, v.address, [], [16], v.i32, 0),
            (v.pointer, v.address, [v.x], [-(2**31)], v.i32, 0),
            (v.pointer, v.address, [], [16], v.i32, llvm.GEPNoWrapFlags.inbounds),
        ],
    }
    operands = [(v.f, v.g)] if name in FLOATS else [(v.x, v.y), (v.index, v.index), (v.vector, v.vector)]
    return given.get(name, operands)


@pytest.mark.each_value(30)
@pytest.mark.parametrize(("dialect", "name"), REPLACED)
def test_the_same_operation_is_built(dialect, name):
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            values = Values()
            for given in arguments(dialect, name, values):
                quick, general = (getattr(each[dialect], name) for each in (QUICK, UPSTREAM))
                texts = [str(make(*given).owner).partition(" = ")[2] for make in (quick, general)]
                assert texts[0] == texts[1]
        module.operation.verify()


def test_most_operations_are_built_without_upstreams_classes(monkeypatch):
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            x = arith.constant(ir.IntegerType.get_signless(32), 3)

            def refuse(*given, **named):
                raise AssertionError("upstream's class")

            monkeypatch.setattr(arith.AddIOp, "__init__", refuse)
            monkeypatch.setattr(arith.ConstantOp, "__init__", refuse)
            assert str(arith.addi(x, arith.constant(x.type, 4)).type) == "i32"
            with pytest.raises(AssertionError, match="upstream's class"):
                arith.addi(x, x, overflow_flags=arith.IntegerOverflowFlags.nsw)


def test_options_and_mistakes_are_left_to_upstream():
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            x = arith.constant(ir.IntegerType.get_signless(32), 3)
            flags = arith.IntegerOverflowFlags.nsw
            assert "overflow<nsw>" in str(arith.addi(x, x, overflow_flags=flags).owner)
            assert str(arith.addi(x.owner, x).type) == "i32"  # an operation stands for its result
            for builder in (arith, UPSTREAM["arith"]):
                with pytest.raises((TypeError, ValueError)):
                    builder.addi(x, "y")
                with pytest.raises((TypeError, ValueError)):
                    builder.constant(x.type, "3")


def test_the_rest_of_a_dialect_is_upstreams():
    for dialect, module in QUICK.items():
        names = {name for each, name in REPLACED if each == dialect}
        assert names
        for name, value in vars(UPSTREAM[dialect]).items():
            if name not in names and not name.startswith("__"):
                assert getattr(module, name) is value
