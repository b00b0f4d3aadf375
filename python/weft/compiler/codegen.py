"""LLVM IR text to PTX text, with LLVM in a process of its own, since it aborts on what it can't select."""

import functools
import re
import signal
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from weft.cache import loaded
from weft.compiler import channels, ptxas_faults, worker
from weft.errors import Diagnostic, Location, WeftError
from weft.isa.chips import CHIPS

TIMEOUT_SECONDS = 300
TRIPLE = "nvptx64-nvidia-cuda"
OPT_LEVEL = 3
ALL, SOME, FEW = "all", "some", "few"
"""All passes of a level; for kernels of `wgmma`, some that leave nearly the same PTX as level 3, and few that
take a third of its time."""
# Branches first: constants and the ranges of thread indices reach further. Then, the functions' own passes of
# level 1 leave little more for level 3 to do than unsigned in place of signed minima.
_BEFORE_FUNCTIONS = ("simplify_cfg", "ipsccp", "instruction_combine")
_FUNCTIONS_LEVEL = 1
_FEW = (
    *("simplify_cfg", "sroa", "instruction_combine", "simplify_cfg", "sccp", "new_gvn", "reassociate"),
    *("loop_rotate", "instruction_combine", "simplify_cfg", "dead_code_elimination"),
)
# Terms of an expression that LLVM's analysis of loops doesn't expand. Those of addresses of partial sums have
# a thousand, and took a third of the time of all optimizations.
_HUGE = 1024
LAST_PTX = (9, 0)
"""The newest PTX version that LLVM 22.1 writes."""

# Before a worker loads LLVM: what it makes counts as made by the files as they are now.
LIBRARY = "llvmlite"
_spec = find_spec(LIBRARY)
_folders = (_spec and _spec.submodule_search_locations) or ()
loaded.watch(LIBRARY, *(f"{folder}/binding" for folder in _folders))


@dataclass(frozen=True)
class Generated:
    """PTX text, and the optimized LLVM IR that it was made from, if that was asked for."""

    ptx: str
    ir: str


def to_ptx(
    llvm_ir: str,
    chip: str,
    ptx_version: tuple[int, int],
    *,
    opt_level: int = OPT_LEVEL,
    passes: str = ALL,
    instead: bool = True,
    optimized: bool = False,
) -> Generated:
    """Optimize `llvm_ir` (0 to 3) and generate code for `chip` ("sm_90a"), in any thread or forked process.

    Loops aren't unrolled: the passes have done that where it helps. Inline PTX may need a newer version than
    LLVM writes, or a chip that it doesn't know: then code is generated for the nearest that it has, and only
    the version and target that the text names change (`instead`: or LLVM is given the chip as it is).
    `passes`: `ALL` those of the level, `SOME` or `FEW`.
    `optimized`: the result also has the optimized LLVM IR. Whatever LLVM refuses is a WeftError.
    """
    if "\0" in llvm_ir:
        raise WeftError("LLVM IR: a NUL byte in the text")
    newer = ptx_version > LAST_PTX and ptx_version[0] == LAST_PTX[0]
    written = LAST_PTX if newer else ptx_version
    known = CHIPS[chip].generated_as if instead and chip in CHIPS else chip
    request = _Request(llvm_ir, known, "".join(map(str, written)), opt_level, passes, optimized)
    try:
        answer, said = _worker.ask(vars(request), TIMEOUT_SECONDS)
    except TimeoutError:
        raise WeftError(f"LLVM didn't finish within {TIMEOUT_SECONDS} s (for {request.target})") from None
    except worker.DeathError as death:
        raise WeftError(_death(death.status, death.said, request)) from None
    if unknown := _unknown_target(said, request):
        raise WeftError(unknown)
    if "invalid" in answer:
        raise WeftError(_invalid(answer["invalid"], llvm_ir))
    # To LLVM an intrinsic that it doesn't know is an external function like any other.
    if external := re.search(r"^\.extern \.func\b.*?\b(llvm\.[\w.]+)", answer["ptx"], re.MULTILINE):
        raise WeftError(f"LLVM has no intrinsic {external[1]}")
    ptx = answer["ptx"].replace(_directives(written, known), _directives(ptx_version, chip), 1)
    return Generated(ptxas_faults.avoided(ptx), answer["ir"])


def _directives(version: tuple[int, int], chip: str) -> str:
    return f".version {version[0]}.{version[1]}\n.target {chip}"


@dataclass(frozen=True)
class _Request:
    ir: str
    chip: str
    ptx: str
    opt_level: int
    passes: str
    optimized: bool

    @property
    def target(self) -> str:
        return f"{self.chip} with PTX {self.ptx[:-1]}.{self.ptx[-1]}"


_worker = worker.Worker(__name__, "LLVM's process")


def start() -> None:
    """Starts LLVM's process, so that it is ready when there is something to generate."""
    _worker.start()


def _death(status: int, said: str, request: _Request) -> Diagnostic:
    """LLVM's last words, in ours."""
    if unknown := _unknown_target(said, request):
        return Diagnostic(unknown)
    message = said.partition("LLVM ERROR: ")[2].strip()
    if intrinsic := re.match(r"Cannot select: intrinsic %?([\w.]+)", message):
        return Diagnostic(f"{intrinsic[1]} doesn't exist on {request.target} (LLVM can't select it)")
    if message:
        reason = f"LLVM gave up: {message.splitlines()[0]}"
    elif status < 0:
        reason = f"LLVM crashed ({signal.strsignal(-status)})"
    else:
        message = said.strip()
        reason = f"LLVM ended with status {status}: {message.splitlines()[-1] if message else 'no message'}"
    notes = (Diagnostic(message, severity="note"),) if "\n" in message else ()
    return Diagnostic(f"{reason} (for {request.target})", notes=notes)


def _unknown_target(said: str, request: _Request) -> str | None:
    """A chip or a PTX version that LLVM would go on without, having printed a line."""
    unknown = re.search(r"'(.+)' is not a recognized (processor|feature)", said)
    return f"LLVM doesn't know {unknown[2]} {unknown[1]} (for {request.target})" if unknown else None


def _invalid(message: str, llvm_ir: str) -> Diagnostic:
    """LLVM's complaint about the IR's text, or its verifier's, at its line."""
    if match := re.search(r"<string>:(\d+):(\d+): error: (.*)", message):
        line, column = int(match[1]), int(match[2])
        lines = llvm_ir.splitlines()
        shown = lines[line - 1].strip() if line <= len(lines) else "end of the text"
        note = Diagnostic(f"at: {shown}", severity="note")
        return Diagnostic(f"LLVM IR: {match[3]}", Location("<llvm ir>", line, column), notes=(note,))
    first, _, rest = message.strip().partition("\n")
    notes = (Diagnostic(rest.strip(), severity="note"),) if rest.strip() else ()
    return Diagnostic(f"LLVM IR: {first}", notes=notes)


def serve(opened: list[str]) -> None:
    """Answers requests in the worker."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("weft", f"-scalar-evolution-huge-expr-threshold={_HUGE}")
    worker.serve(functools.partial(_generate, llvm), opened)


def _optimize(llvm: Any, module: Any, machine: Any, level: int, passes: str) -> None:
    """Runs passes on a module."""
    options = llvm.create_pipeline_tuning_options(speed_level=_FUNCTIONS_LEVEL if passes == SOME else level)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    if passes == ALL:
        builder.getModulePassManager().run(module, builder)
        return
    manager = llvm.create_new_module_pass_manager()
    for name in _FEW if passes == FEW else _BEFORE_FUNCTIONS:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    for function in module.functions if passes == SOME else ():
        if not function.is_declaration:
            builder.getFunctionPassManager().run(function, builder)


def _generate(llvm: Any, request: channels.Message) -> dict[str, str]:
    # A context per module, or the worker would keep every type that it ever saw.
    try:
        module = llvm.parse_assembly(request["ir"], llvm.create_context())
        module.verify()
    except RuntimeError as error:
        return {"invalid": str(error)}
    if module.triple not in ("", "unknown-unknown-unknown") and not module.triple.startswith("nvptx64"):
        return {"invalid": f"expected target triple {TRIPLE}, got {module.triple}"}
    level = request["opt_level"]
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=request["chip"], features=f"+ptx{request['ptx']}", opt=level
    )
    module.triple = TRIPLE
    # The optimizer goes by the module's own layout, and by a generic one where it has none.
    module.data_layout = str(machine.target_data)
    _optimize(llvm, module, machine, level, request["passes"])
    ir = str(module) if request["optimized"] else ""
    return {"ptx": machine.emit_assembly(module), "ir": ir}
