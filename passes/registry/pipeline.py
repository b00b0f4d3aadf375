"""Textual pipelines of Weft's passes and upstream's, and the named ones that take a product down to LLVM."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from weft.errors import Diagnostic, WeftError
from weft.ir import instrumentation
from weft.isa.suggest import did_you_mean
from weft.mlir import PassManager, gpu, ir, located, operations
from weft.passes.registry.pass_ import Pass
from weft.system import phase

_REPRODUCTION = """\
{module}
{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: {pipeline},
      disable_threading: true,
      verify_each: {verifies}
    }}
  }}
#-}}
"""
_REPRODUCER = re.compile(
    r"\{-#\s*external_resources:\s*\{\s*mlir_reproducer:\s*\{\s*pipeline:\s*(\"(?:[^\"\\]|\\.)*\").*?#-\}",
    re.DOTALL,
)


def reproduction(module: str, pipeline: str, verifies: bool) -> str:
    """The text of a module and a pipeline; `verifies`: the module is verified after each pass."""
    text = json.dumps(f"builtin.module({pipeline})", ensure_ascii=False)
    return _REPRODUCTION.format(module=module.rstrip("\n"), pipeline=text, verifies=str(verifies).lower())


def reproduced(text: str) -> tuple[str, str] | None:
    """The module and the pipeline of such a text; None for another. Raises WeftError for an escape that MLIR
    doesn't have.
    """
    if (match := _REPRODUCER.search(text)) is None:
        return None
    pipeline = _ESCAPED.sub(_character, match[1][1:-1])
    return text[: match.start()] + text[match.end() :], pipeline


_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def _character(escape: re.Match[str]) -> str:
    """The character that an escape in a string of MLIR stands for."""
    text = escape[1]
    if len(text) == 2:
        return chr(int(text, 16))
    if text not in _CHARACTERS:
        legal = '\\n, \\t, \\", \\\\ or two hexadecimal digits'
        raise WeftError(f"mlir_reproducer: an escape in the pipeline must be {legal}; got '{escape[0]}'")
    return _CHARACTERS[text]


def has_host_code(module: ir.Operation) -> bool:
    """Whether a module has a `gpu.module`, and something beside those at its top."""
    if module.operation.name != "builtin.module":
        return False
    names = {op.operation.name for op in module.operation.regions[0].blocks[0].operations}
    return names != {gpu.GPUModuleOp.OPERATION_NAME} and bool(operations(module, gpu.GPUModuleOp))


def apart(module: ir.Operation) -> Iterator[ir.Operation]:
    """Each `gpu.module`, also of nested modules, in a module of its own while passes run on it."""
    for holder in operations(module, gpu.GPUModuleOp):
        with holder.location, ir.InsertionPoint(holder.operation):
            alone, place = ir.Module.create(), ir.Operation.create("builtin.module", regions=1)
        place.regions[0].blocks.append()
        alone.body.append(holder.operation)
        try:
            yield alone.operation
        finally:
            for part in list(alone.body.operations):
                part.operation.move_before(place)
            place.erase()


@dataclass(frozen=True)
class Pipeline:
    """A pipeline by name. Its text may use `{option}` for each of its options."""

    flag: str
    summary: str
    text: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Element:
    """One element of a textual pipeline: `name{options}` or `anchor(elements)`. `named`: it comes from a
    named pipeline.
    """

    name: str
    options: str = ""
    inner: tuple["Element", ...] | None = None
    named: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        if self.inner is not None:
            return f"{self.name}({','.join(map(str, self.inner))})"
        return f"{self.name}{{{self.options}}}" if self.options else self.name


ANCHOR = "builtin.module"
"""The operation that pipelines run on."""
_SECOND = re.compile(r",([\w-]+)=")  # a further option after a comma
_UNKNOWN = re.compile(r"'([^']*)' does not refer to a registered pass")
_NO_OPTION = re.compile(r"<Pass-Options-Parser>: no such option (.*)")
_DEEPEST = 32  # parentheses within each other, far beyond what regions nest


def parse(text: str) -> tuple[Element, ...]:
    """The elements of `a{x=1},gpu.module(b,c)`. Raises WeftError with the column of a mistake."""
    elements, end = _elements(text, 0, 0)
    if end != len(text):
        raise _fault(text, end, "expected ',' or the end of the pipeline")
    return elements


def _fault(text: str, at: int, what: str) -> WeftError:
    return WeftError(f"pass pipeline, column {at + 1}: {what}\n  {text}\n  {' ' * at}^")


def _elements(text: str, at: int, depth: int) -> tuple[tuple[Element, ...], int]:
    elements = []
    while True:
        start = at
        while at < len(text) and text[at] not in "{}(),":
            at += 1
        name = text[start:at].strip()
        if not name:
            raise _fault(text, start, "expected the name of a pass")
        element, at = _rest(text, at, name, depth)
        elements.append(element)
        if at >= len(text) or text[at] != ",":
            return tuple(elements), at
        at += 1


def _rest(text: str, at: int, name: str, depth: int) -> tuple[Element, int]:
    """The text after a name: options in braces, elements in parentheses, or nothing."""
    if text[at : at + 1] == "{":
        braces, start = 0, at
        while at < len(text):
            braces += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
            if braces == 0:
                return Element(name, text[start + 1 : at - 1]), _skip(text, at)
        raise _fault(text, start, "this brace is not closed")
    if text[at : at + 1] == "(":
        if name == ANCHOR and depth == 0 and text.startswith("()", at):
            return Element(name, inner=()), _skip(text, at + 2)
        if depth == _DEEPEST:
            raise _fault(text, at, f"parentheses are nested deeper than {_DEEPEST}")
        inner, end = _elements(text, at + 1, depth + 1)
        if text[end : end + 1] != ")":
            raise _fault(text, at, "this parenthesis is not closed")
        return Element(name, inner=inner), _skip(text, end + 1)
    return Element(name), at


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def parse_options(text: str) -> dict[str, str]:
    """`chip=sm_80 rows=any` as a mapping. Raises WeftError for a word without '=', or with another behind a
    comma.
    """
    options = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            raise WeftError(f"pass option '{word}' has no value: write {name}=VALUE")
        if _SECOND.search(value):
            legal = _SECOND.sub(r" \1=", word)
            raise WeftError(f"pass options '{word}' must have spaces between them: write '{legal}'")
        options[name] = value
    return options


def flatten(
    elements: tuple[Element, ...],
    pipelines: Mapping[str, Pipeline],
    followers: Mapping[str, Sequence[str]],
    *,
    named: bool = False,
) -> tuple[Element, ...]:
    """The elements with every named pipeline replaced by its passes. There, the passes in `followers`
    come after the one that they follow. `named`: these elements are those of a named pipeline.
    """
    flat: list[Element] = []
    for element in elements:
        if element.inner is not None:
            flat.append(Element(element.name, inner=flatten(element.inner, pipelines, followers)))
        elif element.name in pipelines:
            pipeline = pipelines[element.name]
            options = parse_options(element.options)
            if unknown := sorted(set(options) - set(pipeline.options)):
                known = ", ".join(pipeline.options) or "none"
                raise WeftError(
                    f"pipeline '{element.name}' has no option '{unknown[0]}': its options are {known}"
                    f"{did_you_mean(unknown[0], pipeline.options)}"
                )
            text = pipeline.text
            for name, default in pipeline.options.items():
                text = text.replace("{" + name + "}", options.get(name, default))
            passes = flatten(parse(text), pipelines, followers, named=True)
            flat += [replace(each, named=True) for each in passes]
        else:
            flat.append(element)
            if named:
                more = tuple(Element(name) for name in followers.get(element.name, ()))
                flat += flatten(more, pipelines, followers, named=True)
    return tuple(flat)


class Manager:
    """Runs a pipeline on modules: upstream's pass manager, or one for each element where IR is printed around
    some of them alone.
    """

    def __init__(
        self,
        elements: Sequence[Element],
        context: ir.Context,
        passes: Mapping[str, Pass],
        known: set[str],
        anchor: str,
    ):
        """Raises WeftError for an unknown pass, with those of the `known` names that may be meant."""
        self._elements = [str(element) for element in elements]
        self._make = partial(_manager, context=context, passes=passes, known=known, anchor=anchor)
        by_itself = instrumentation.current().selects
        groups = [[element] for element in elements] if by_itself else [list(elements)]
        self._managers = [(self._make(group), group) for group in groups]
        # Whether a pass is for kernels alone matters only in modules with host code.
        self._runs = [
            (of_kernels, list(run))
            for of_kernels, run in groupby(elements, lambda each: _of_kernels(each, passes))
        ]
        self._prepared: set[int] = set()
        self._verifies = True

    def enable_verifier(self, enable: bool) -> None:
        """Whether the module is verified after each pass."""
        self._verifies = enable

    def run(self, module: ir.Operation) -> None:
        """Runs the pipeline on an operation."""
        reproducer = instrumentation.current().reproducer
        instrumentation.dump(self._elements)
        if reproducer is None:
            self._run(module)
            return
        reproducer.begin(reproduction(str(module), ",".join(self._elements), self._verifies))
        succeeded = False
        try:
            with located():
                self._run(module)
            succeeded = True
        except WeftError as error:
            raise WeftError(*error.diagnostics, *_written(reproducer)) from error
        except BaseException:
            _written(reproducer)
            raise
        reproducer.end(succeeded)

    def _run(self, module: ir.Operation) -> None:
        if not any(of_kernels for of_kernels, _ in self._runs) or not has_host_code(module):
            for manager, group in self._managers:
                self._run_one(manager, group, module)
            return
        for of_kernels, group in self._runs:
            manager = self._make(group)
            if not of_kernels:
                self._run_one(manager, group, module)
                continue
            for part in apart(module):
                self._run_one(manager, group, part)

    def _run_one(self, manager: Any, group: Sequence[Element], module: ir.Operation) -> None:
        """Runs passes, instrumented: a manager that is instrumented and runs nothing would print times."""
        if id(manager) not in self._prepared:
            self._prepared.add(id(manager))
            instrumentation.prepare(manager, frozenset().union(*map(_names, group)))
        manager.enable_verifier(self._verifies)
        manager.run(module)


def _written(reproducer: instrumentation.Reproducer) -> Sequence[Diagnostic]:
    """The note about the reproducer of a failure, or why there is none."""
    try:
        note = reproducer.end(False)
    except WeftError as error:
        return error.diagnostics
    return [note] if note else []


def check_selected(elements: Sequence[Element]) -> None:
    """Raises WeftError where IR is to be printed around a pass that these elements don't have."""
    wanted = instrumentation.current()
    running = [name for element in elements for name in sorted(_names(element))]
    for flag, names in (("before", wanted.before), ("after", wanted.after)):
        if missing := sorted(names - set(running)):
            legal = f"; those that run are {', '.join(dict.fromkeys(running))}"
            more = did_you_mean(missing[0], running) or (legal if running else f": add --{missing[0]}")
            raise WeftError(f"--mlir-print-ir-{flag}: no pass '{missing[0]}' runs{more}")


def _names(element: Element) -> frozenset[str]:
    """The passes of an element."""
    if element.inner is None:
        return frozenset([element.name])
    return frozenset().union(*map(_names, element.inner))


def _manager(
    elements: Sequence[Element],
    context: ir.Context,
    passes: Mapping[str, Pass],
    known: Iterable[str],
    anchor: str = ANCHOR,
) -> Any:
    wanted = instrumentation.current()
    manager = PassManager(anchor, context)
    for element in elements:
        if phase.shared() and not wanted.prints and element.name not in passes:
            # Before each pass of upstream's, a pass of ours names it.
            manager.add(_telling(element), name="phase", argument="phase", description="names the next pass")
        _add(manager, element, passes, known, context)
    return manager


def pass_names(passes: Iterable[str], pipelines: Mapping[str, Pipeline]) -> set[str]:
    """The names of passes and pipelines, and of those of upstream's passes that the pipelines run."""
    elements = [element for pipeline in pipelines.values() for element in parse(pipeline.text)]
    inner = [each for element in elements for each in element.inner or ()]
    return {*passes, *pipelines, *(each.name for each in (*elements, *inner))}


def _telling(element: Element) -> Callable[[object, object], None]:
    what = f"running pass '{element}'"
    return lambda op, manager: phase.enter(what)


def _add(
    manager: Any, element: Element, passes: Mapping[str, Pass], known: Iterable[str], context: ir.Context
) -> None:
    """Adds one element: a pass of ours, or a nested pipeline with one, as a function, anything else as
    upstream's text.

    Raises WeftError for a pass that nobody knows, with those of the `known` names that may be meant.
    """
    if element.name in passes:
        chosen = passes[element.name]
        manager.add(
            chosen.configured(parse_options(element.options)),
            name=chosen.flag,
            argument=chosen.flag,
            description=chosen.summary,
        )
        return
    if element.inner is not None and not _names(element).isdisjoint(passes):
        inner = _manager(element.inner, context, passes, known, element.name)
        manager.add(_on_nested(inner, element.name), name=element.name, argument=str(element))
        return
    try:
        manager.add(str(element))
    except ValueError as failure:
        reason = next((line for line in str(failure).splitlines() if line.strip()), str(failure))
        if option := _NO_OPTION.fullmatch(reason):
            raise WeftError(f"pass '{element.name}' has no option '{option[1]}'") from None
        unknown = _UNKNOWN.search(reason)
        meant = did_you_mean(unknown[1], known) if unknown else ""
        raise WeftError(f"pass pipeline: {reason}{meant}") from None


def _of_kernels(element: Element, passes: Mapping[str, Pass]) -> bool:
    """Whether an element runs on each `gpu.module` alone in a module with host code."""
    decided = passes[element.name].of_kernels if element.name in passes else None
    return element.named if decided is None else decided


def _on_nested(manager: Any, name: str) -> Callable[[ir.Operation, object], None]:
    """A pass that runs a manager on the operations of a name directly in the one that it gets."""

    def run(op: ir.Operation, _: object) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if name in (inner.operation.name, "any"):
                        manager.run(inner.operation)

    return run


# From the top, MLIR takes five times as long where operations with hundreds of results are folded.
_CLEAN = "canonicalize{top-down=false},cse"

WEFT_KERNEL = Pipeline(
    "weft-kernel",
    "from a function of one tile.matmul to a kernel in tile ops",
    "outline-linalg,select-schedule{chip={chip} rows={rows}},outline-matmul,expand-matmul{chip={chip}},"
    + _CLEAN,
    {"chip": "sm_80", "rows": "aligned"},
)

WEFT_TO_INSTRUCTIONS = Pipeline(
    "weft-to-instructions",
    "from tile ops to one op per instruction",
    "pipeline-loops,assign-layouts,lower-reductions,lower-layouts,round-tf32,lower-tma,lower-copies,lower-gemm,"
    "lower-gemm-async,lower-tensor-memory,lower-rings,lower-claims,lower-flags,lower-roles,lower-buffers,"
    "lower-fragments," + _CLEAN,
)

WEFT_TO_LLVM = Pipeline(
    "weft-to-llvm",
    "from instruction ops to LLVM's dialect",
    # Upstream's own translation dies of tensor-core operations that it can't say: ours lowers them, verified.
    # `gpu.subgroup_mma_…` become such operations later.
    "refuse-unlowered,lower-subgroups,lower-math,lower-conversions,nvvm-to-weft,lower-wmma,lower-mma,lower-wgmma,lower-tcgen05,"
    "convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,lower-affine,convert-nvvm-to-llvm,"
    "record-arguments,gpu.module(convert-gpu-to-nvvm),mark-tensor-maps,nvvm-to-weft,lower-wmma,"
    "convert-vector-to-llvm,convert-cf-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,finalize-memref-to-llvm,mark-dynamic-memory,convert-ub-to-llvm,"
    "reconcile-unrealized-casts,"
    f"{_CLEAN},"
    "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}",
)

WEFT = Pipeline(
    "weft",
    "all passes, from tile.matmul to LLVM's dialect",
    "weft-kernel{chip={chip}},weft-to-instructions,weft-to-llvm",
    {"chip": "sm_80"},
)
