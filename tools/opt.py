"""What `weft-opt` does once its command line is read."""

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from weft import __version__, mlir, passes, phase
from weft.dialects import context as new_context
from weft.errors import Diagnostic, WeftError
from weft.isa.suggest import did_you_mean
from weft.passes.registry.pipeline import Element
from weft.tools import cli, verify_diagnostics

_SPLIT = re.compile(r"^// -----[ \t]*(?:\n|\Z)", re.MULTILINE)


def version() -> str:
    """Weft's version and that of the bindings."""
    return f"weft {__version__} on {mlir.version()}"


def listing() -> str:
    """Weft's passes and pipelines with their options."""
    lines = ["Passes:"]
    for chosen in passes.PASSES.values():
        lines += _entry(chosen.flag, chosen.summary, chosen.options)
    lines += ["", "Pipelines:"]
    for pipeline in passes.PIPELINES.values():
        lines += _entry(pipeline.flag, pipeline.summary, pipeline.options)
    lines += [
        "",
        f"Upstream passes by their upstream names, as {mlir.version()} has them (--canonicalize, --cse, …):",
    ]
    return "\n".join([*lines, "  https://mlir.llvm.org/docs/Passes/"])


def _entry(flag: str, summary: str, options: Any) -> list[str]:
    found = [f"  --{flag:<24} {summary}"]
    return found + [f"      {name}={default or '…'}" for name, default in options.items()]


def run(options: Namespace, flags: Sequence[tuple[str, str]]) -> int:
    """Processes the input by chunks and writes the results if all went well. Returns the exit status."""
    text, name = cli.read(options.input), cli.name_of(options.input)
    results, ok = [], True
    context = new_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    _passes(options, flags, context)  # its mistakes are the command line's, not the input's
    for chunk in _chunks(text) if options.split_input_file else [text]:
        result, found = _process(chunk, name, options, flags, context)
        if options.verify_diagnostics:
            found = verify_diagnostics.verify(found, chunk, name)
        cli.report(found, "weft-opt")
        ok = ok and not any(d.severity == "error" for d in found)
        results.append(result)
    if ok:
        cli.write(options.output, "// -----\n".join(r for r in results if r is not None))
    return 0 if ok else 1


def _chunks(text: str) -> Iterator[str]:
    """The parts of a split file, each behind as many empty lines as its first line's number asks for."""
    start = 0
    for match in [*_SPLIT.finditer(text), None]:
        end = match.start() if match else len(text)
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = match.end() if match else end


def _process(
    text: str, name: str, options: Namespace, flags: Sequence[tuple[str, str]], context: Any
) -> tuple[str | None, list[Diagnostic]]:
    """One chunk's result, None where it failed, and everything that was said about it."""
    found: list[Diagnostic] = []

    def hear(info: Any) -> bool:
        found.append(mlir.diagnostic(info, name))
        return True

    # Errors come with the exception that ends the work; this hears the rest.
    handler = context.attach_diagnostic_handler(hear)
    result = None
    try:
        with cli.speaking_of(name), mlir.located(name):
            result = _transform(text, name, options, flags, context)
    except WeftError as error:
        found += error.diagnostics
    handler.detach()
    return result, found


def _transform(
    text: str, name: str, options: Namespace, flags: Sequence[tuple[str, str]], context: Any
) -> str:
    # A file keeps its name in locations; a part of one, a pipe and stdin are parsed from memory.
    if not options.split_input_file and Path(options.input).is_file():
        module = mlir.parse_file(options.input, context)
    else:
        module = mlir.parse(text, context, name)
    manager = _manager(options, flags, context)
    manager.run(module.operation)
    del manager  # prints its timing
    phase.enter("printing the result")
    return str(
        module.operation.get_asm(
            enable_debug_info=options.mlir_print_debuginfo,
            print_generic_op_form=options.mlir_print_op_generic,
            assume_verified=options.verify_each and not options.no_verify,
        )
    )


def _passes(options: Namespace, flags: Sequence[tuple[str, str]], context: Any) -> Any:
    """A manager of the passes that the command line names. Raises WeftError for one that nobody knows."""
    shown = options.mlir_timing or any(_printing(options).values())
    if options.pass_pipeline is not None:
        return passes.manager(options.pass_pipeline, context, shown=shown)
    text = ",".join(str(_nested(Element(name, text), context)) for name, text in flags)
    return passes.manager(text, context, shown=shown) if text else mlir.PassManager("builtin.module", context)


def _printing(options: Namespace) -> dict[str, bool]:
    """When the IR is to be printed."""
    return {
        "print_before_all": bool(options.mlir_print_ir_before_all),
        "print_after_all": bool(options.mlir_print_ir_after_all),
        "print_after_change": bool(options.mlir_print_ir_after_change),
        "print_after_failure": bool(options.mlir_print_ir_after_failure),
    }


def _manager(options: Namespace, flags: Sequence[tuple[str, str]], context: Any) -> Any:
    """The pass manager that the command line describes, printing what it asks for."""
    manager = _passes(options, flags, context)
    manager.enable_verifier(options.verify_each and not options.no_verify)
    if options.mlir_timing:
        manager.enable_timing()
    when = _printing(options)
    if any(when.values()):
        # Upstream takes these two as restrictions of printing after all.
        when["print_after_all"] |= when["print_after_change"] or when["print_after_failure"]
        manager.enable_ir_printing(
            **when,
            print_module_scope=options.mlir_print_ir_module_scope,
            enable_debug_info=options.mlir_print_debuginfo,
            print_generic_op_form=options.mlir_print_op_generic,
        )
    return manager


def _nested(element: Element, context: Any) -> Element:
    """A flag's pass, below the operation that upstream restricts it to: `mlir-opt` nests flags too."""
    try:
        passes.manager(str(element), context)
    except WeftError as error:
        if "does not refer to a registered pass" in str(error):
            from weft.tools.weft_opt import FLAGS

            meant = did_you_mean(f"--{element.name}", [*FLAGS, *(f"--{name}" for name in passes.names())])
            what = f"--{element.name} is no option and no pass; --list-passes shows Weft's"
            raise WeftError(f"{what}{meant}") from None
        restricted = re.search(r"restricted to '([\w.]+)'", str(error))
        if restricted is None:
            raise
        return Element(restricted[1], inner=(element,))
    return element
