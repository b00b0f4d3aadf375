"""Mistakes in what other packages register are refused, and failures of their functions are named."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

import weft
from weft import mlir, passes
from weft.dialects import context, tile
from weft.dialects.effects import reads, writes
from weft.dialects.op import Op
from weft.dialects.schedule import AnySchedule, Schedule
from weft.errors import WeftInternalError
from weft.passes import Candidate, Pass, Predicate
from weft.registry import extensions
from weft.schedules import choice
from weft.schedules.choice import Chooser


@pytest.fixture
def registries():
    """Forgets what a test registers."""
    yield
    for entry in extensions.entries():
        for registry in extensions._registries:
            registry.remove(entry.source)
    choice._chosen.cache_clear()


def nothing(module):
    pass


def lowered(op):
    return op.a


@dataclass(frozen=True)
class Words(AnySchedule):
    """A family for sm_80."""

    words: int
    block: tuple[int, int, int] = (64, 64, 64)
    stages: int = 1
    group: int = 1
    counts: ClassVar = {"block": 3}
    key: ClassVar = "words"
    instruction: ClassVar = "none"
    threads: ClassVar = 32

    def shared_bytes(self, types):
        return 0

    @classmethod
    def chips(cls, types):
        return frozenset({"sm_80"})

    def complaint(self, types, target=None):
        return None if self.words == 1 else f"words must be 1; got {self.words}"


def candidate(name: str) -> Candidate:
    return Candidate(name, 1, (), lowered)


PASSES = {
    "lower-mma": "pass 'lower-mma' is registered already, by Weft",
    "cse": "pass 'cse' is registered already, by MLIR",
    "weft": "pass 'weft' is registered already, as a pipeline of Weft",
    "run-reproducer": "pass 'run-reproducer' can't have this name: --run-reproducer is an option of weft-opt",
    "Lower_X": "pass flag must be lower-case words with '-' between them; got 'Lower_X'",
    7: "pass flag must be lower-case words with '-' between them; got 7",
}
CANDIDATES = {
    "tile.gemm": "candidate 'mma.sync m16n8k16 of tile.gemm' is registered already, by Weft",
    "tile.alloc": "op_name must be one of tile.gemm, tile.gemm_scaled, tile.gemm_async or of another "
    "package; got tile.alloc",
    "gemm": "op_name must be an operation's name, such as tile.gemm; got 'gemm'",
}
OTHERS = {
    "a pass that isn't one": (
        lambda: weft.register_pass(nothing),
        "pass_ must be a weft.passes.Pass; got function",
    ),
    "a pass after none": (
        lambda: weft.register_pass(Pass("x", "", nothing), after="lower-mmaa"),
        "after must be a pass that the pipeline --weft runs; got 'lower-mmaa'; did you mean 'lower-mma'?",
    ),
    "a candidate that isn't one": (
        lambda: weft.register_candidate("tile.gemm", nothing),
        "candidate must be a weft.passes.Candidate; got function",
    ),
    "a candidate of two lines": (
        lambda: weft.register_candidate("tile.gemm", candidate("a\nb")),
        "candidate name must be a letter or digit, then letters, digits, spaces and any of _.:+-; "
        "got 'a\\nb'",
    ),
    "a dialect that isn't one": (
        lambda: weft.register_dialect(int),
        "dialect must be a subclass of weft.mlir.ext.Dialect; got <class 'int'>",
    ),
    "Weft's dialect": (
        lambda: weft.register_dialect(tile.Tile),
        "dialect 'tile' is registered already, by Weft",
    ),
    "a schedule that isn't one": (
        lambda: weft.register_schedule(int, expand=nothing),
        "family must be a subclass of weft.dialects.schedule.AnySchedule; got <class 'int'>",
    ),
}
SCHEDULE = {"key": "words", "__annotations__": dict.fromkeys(("block", "stages", "group", "words"), int)}


def family(**fields):
    return dataclass(frozen=True)(type("Mine", (AnySchedule,), SCHEDULE | fields))


def schedule(**fields):
    return lambda: weft.register_schedule(family(**fields), expand=nothing)


OTHERS |= {
    "a summary of two lines": (
        lambda: weft.register_pass(Pass("x", "a\nb", nothing)),
        "pass 'x': summary must be a line of text; got 'a\\nb'",
    ),
    "a pass without a function": (
        lambda: weft.register_pass(Pass("x", "", None)),
        "pass 'x': run must be a function; got None",
    ),
    "options without defaults": (
        lambda: weft.register_pass(Pass("x", "", nothing, ["y"])),
        "pass 'x': options must be a mapping of names to defaults; got ['y']",
    ),
    "an option with a space": (
        lambda: weft.register_pass(Pass("x", "", nothing, {"a b": ""})),
        "pass 'x': names of options must be lower-case words with '-' between; got 'a b'",
    ),
    "a default that is a number": (
        lambda: weft.register_pass(Pass("x", "", nothing, {"a": 1})),
        "pass 'x': the default of option 'a' must be a text; got 1",
    ),
    "a pass that lowers one thing": (
        lambda: weft.register_pass(Pass("x", "", nothing, lowers=tile.Tile)),
        "pass 'x': lowers must be a sequence of dialects and classes of operations; "
        "got <class 'weft.dialects.tile_types.Tile'>",
    ),
    "a pass that lowers names": (
        lambda: weft.register_pass(Pass("x", "", nothing, lowers=("tile",))),
        "pass 'x': lowers must be a sequence of dialects and classes of operations; one is 'tile'",
    ),
    "a pass after a list": (
        lambda: weft.register_pass(Pass("x", "", nothing), after=["lower-mma"]),
        "after must be a pass that the pipeline --weft runs; got ['lower-mma']",
    ),
    "a candidate of an operation with a space": (
        lambda: weft.register_candidate("dot.dot product", candidate("x")),
        "op_name must be an operation's name, such as tile.gemm; got 'dot.dot product'",
    ),
    "a priority that is a text": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", "high", (), lowered)),
        "candidate 'x': priority must be an integer; got 'high'",
    ),
    "predicates in a list": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, [], lowered)),
        "candidate 'x': predicates must be a tuple; got []",
    ),
    "a predicate that isn't one": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (nothing,), lowered)),
        "candidate 'x': predicates must be instances of weft.passes.Predicate; one is function",
    ),
    "a predicate without a function": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (Predicate("y", None),), lowered)),
        "candidate 'x': a predicate must have a line of text and a function; got 'y'",
    ),
    "a candidate without a function": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (), None)),
        "candidate 'x': lower must be a function; got None",
    ),
    "a pass that takes no module": (
        lambda: weft.register_pass(Pass("x", "", lambda: None)),
        "run of pass 'x' is called with (module), but takes (): too many positional arguments",
    ),
    "a pass that doesn't take its option": (
        lambda: weft.register_pass(Pass("x", "", nothing, {"at-most": "1"})),
        "run of pass 'x' is called with (module, at_most=…), but takes (module): "
        "got an unexpected keyword argument 'at_most'",
    ),
    "a predicate of two operations": (
        lambda: weft.register_candidate(
            "tile.gemm", Candidate("x", 1, (Predicate("p", lambda a, b: None),), lowered)
        ),
        "predicate 'p' of candidate 'x of tile.gemm' is called with (op), but takes (a, b): "
        "missing a required argument: 'b'",
    ),
    "a chooser without a request": (
        lambda: weft.register_schedule(Words, expand=nothing, chooser=Chooser(lambda: None)),
        "choose is called with (request), but takes (): too many positional arguments",
    ),
    "the class of all dialects": (
        lambda: weft.register_dialect(mlir.ext.Dialect),
        "dialect name must be lower-case letters, digits and '_'; got None",
    ),
    "Weft's schedule": (
        lambda: weft.register_schedule(Schedule, expand=nothing),
        "schedule 'warps' is registered already, by Weft",
    ),
    "the class of all schedules": (
        lambda: weft.register_schedule(AnySchedule, expand=nothing),
        "schedule family AnySchedule: a family must be a frozen dataclass",
    ),
    "an abstract schedule": (
        schedule(),
        "schedule family Mine: a family must define chips, complaint, shared_bytes, threads",
    ),
    "a schedule without a function": (
        lambda: weft.register_schedule(Schedule, expand=None),
        "expand must be a function; got None",
    ),
    "a chooser that isn't one": (
        lambda: weft.register_schedule(Schedule, expand=nothing, chooser=nothing),
        "chooser must be a weft.schedules.choice.Chooser; got function",
    ),
}
TAKEN = {
    **{
        flag: (lambda flag=flag: weft.register_pass(Pass(flag, "", nothing)), PASSES[flag]) for flag in PASSES
    },
    **{
        op: (lambda op=op: weft.register_candidate(op, candidate("mma.sync m16n8k16")), CANDIDATES[op])
        for op in CANDIDATES
    },
    **OTHERS,
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_cant_be_registered_is_refused(what):
    register, message = TAKEN[what]
    with pytest.raises(weft.WeftError) as caught:
        register()
    assert str(caught.value) == message
    assert extensions.entries() == ()


def fails(*_):
    raise KeyError("boom")


def leaves(*_):
    sys.exit()


MISTAKES = {
    "predicate": (
        Candidate("mine", 10**6, (Predicate("p", fails),), lowered),
        ", registered by .*failed: KeyError",
    ),
    "lower": (
        Candidate("mine", 10**6, (), fails),
        r"candidate 'mine of tile.gemm', registered by .*: KeyError: 'boom'",
    ),
    "a predicate's answer": (
        Candidate("mine", 10**6, (Predicate("p", lambda op: False),), lowered),
        "needs None or a reason from predicate 'p' of candidate 'mine of tile.gemm'; got False",
    ),
    "nothing": (
        Candidate("mine", 10**6, (), nothing),
        "lowered by candidate mine, which must return a value of .*; got None",
    ),
    "another type": (
        Candidate("mine", 10**6, (), lowered),
        "mine, which must return a value of .*f32.*; got .*f16",
    ),
}


@pytest.mark.each_value(2)
@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_candidate_that_fails_is_named(kind):
    mine, message = MISTAKES[kind]
    weft.register_candidate("tile.gemm", mine)
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.compile(product(), arch="sm_80")
    assert not isinstance(caught.value, WeftInternalError)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("run", [fails, leaves])
def test_a_pass_that_fails_is_named_with_its_line(run):
    weft.register_pass(Pass("mine", "", run), after="lower-rings")
    line = run.__code__.co_firstlineno + 1
    file = "test_extension_mistakes.py"
    message = rf"{file}:{line}:5: error: pass 'mine', registered by .*{file}:\d+, failed: "
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.compile(product(), arch="sm_80")
    assert not isinstance(caught.value, WeftInternalError)


def product():
    with weft.Module() as module:
        kinds = [weft.memref("64x64", element) for element in ("f16", "f16", "f32")]
        with module.func("product", kinds) as (a, b, d):
            tile.matmul(a, b, d)
    return module


SCHEDULES = {
    "expand": (
        Words(1),
        r"mistakes.py:\d+:5: error: the kernel of schedule 'words', .* failed: KeyError: 'boom'",
    ),
    "choose": (
        None,
        r"mistakes.py:\d+:5: error: the chooser of schedule 'words', .* failed: KeyError: 'boom'",
    ),
    "text": ("{words = 1}", "needs a Words or None from the chooser of schedule 'words'; got '{words = 1}'"),
    "illegal": (
        Words(2),
        "needs a legal schedule from the chooser of schedule 'words': words must be 1; got 2",
    ),
}


@pytest.mark.usefixtures("registries")
@pytest.mark.filterwarnings("ignore:weft compiles uncached")
@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_kind_of_schedule_that_fails_is_named(kind):
    chosen, message = SCHEDULES[kind]
    choose = fails if chosen is None else lambda request: chosen
    weft.register_schedule(Words, expand=fails, chooser=Chooser(choose))
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.compile(product(), arch="sm_80")
    assert not isinstance(caught.value, WeftInternalError)


MINE = """
class Mine(mlir.ext.Dialect, name="mine"):
    "A dialect."

class HandleType(Mine.Type, name="handle"):
    size: mlir.ir.IntegerAttr

    def complaint(self):
        return {complaint}

class PutOp(Op, dialect=Mine, name="put", traits=[writes({effect!r})]):
    handle: mlir.ext.Operand[HandleType]

    def check(self):
        return {check}

class TakeOp(Op, dialect=Mine, name="take", traits=[reads("handle")]):
    handle: mlir.ext.Operand[HandleType]
    value: mlir.ext.Result[mlir.ir.F32Type]
"""


def mine(complaint="None", check="None", effect="handle"):
    """A dialect of this source."""
    scope = {"mlir": mlir, "Op": Op, "reads": reads, "writes": writes, "fails": fails}
    exec(MINE.format(complaint=complaint, check=check, effect=effect), scope)
    return scope["Mine"]


BODY = """
func.func @f(%h: !mine.handle<4 : i64>) -> (f32, f32) {
  %0 = "mine.take"(%h) : (!mine.handle<4 : i64>) -> f32
  "mine.put"(%h) : (!mine.handle<4 : i64>) -> ()
  %1 = "mine.take"(%h) : (!mine.handle<4 : i64>) -> f32
  return %0, %1 : f32, f32
}"""


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    "where, what", [("complaint", "complaint of 'mine.handle'"), ("check", "verifier of 'mine.put'")]
)
def test_a_verifier_that_fails_is_named_with_its_line(where, what):
    weft.register_dialect(mine(**{where: "fails()"}))
    line = fails.__code__.co_firstlineno + 1
    message = rf"mistakes.py:{line}:5: error: the {what}, registered by .*, failed: KeyError: 'boom'"
    with pytest.raises(weft.WeftError, match=message) as caught:
        mlir.parse(BODY, context())
    assert not isinstance(caught.value, WeftInternalError)


def test_an_effect_on_no_field_is_refused():
    with pytest.raises(
        weft.WeftError, match=r"^'mine.put' has no field 'handel' for an effect: it has handle$"
    ):
        mine(effect="handel")


@pytest.mark.usefixtures("registries")
def test_values_of_a_type_of_an_extension_are_memory_unless_it_says_otherwise():
    dialect = mine()
    weft.register_dialect(dialect)
    module = mlir.parse(BODY, context())
    passes.manager("cse", module.context).run(module.operation)
    assert str(module).count("mine.take") == 2
    dialect.types[0].is_memory = False
    passes.manager("cse", module.context).run(module.operation)
    assert str(module).count("mine.take") == 1
