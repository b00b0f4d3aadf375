"""What `weft-opt` does once its command line is read."""

import io
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft import mlir, passes
from weft.compiler import stages
from weft.dialects import context as new_context
from weft.dialects import names_in
from weft.dialects.op import refuse
from weft.errors import Diagnostic, WeftError
from weft.ir import mlir_text
from weft.ir.instrumentation import Instrumentation, instrumented
from weft.isa.suggest import did_you_mean
from weft.mlir import ir, operations
from weft.passes import weft_to_binary
from weft.passes.registry.pipeline import Element, reproduced
from weft.registry import extensions
from weft.registry.opt_flags import NAMES, VALUED_SWITCHES
from weft.system import phase
from weft.tools import cli, verify_diagnostics
from weft.tools.pass_printing import printing

_MARKER = VALUED_SWITCHES["--split-input-file"][1]


def listing() -> str:
    """All registered passes and Weft's pipelines, with their options."""
    lines = ["Passes:"]
    for chosen in passes.every().values():
        lines += _entry(chosen.flag, chosen.summary, chosen.options)
    lines += ["", "Pipelines:"]
    for pipeline in passes.PIPELINES.values():
        lines += _entry(pipeline.flag, pipeline.summary, pipeline.options)
    lines += [
        "",
        f"MLIR's own passes, as {mlir.version()} has them, under their names (--canonicalize, --cse, …):",
    ]
    return "\n".join([*lines, "  https://mlir.llvm.org/docs/Passes/"])


def _entry(flag: str, summary: str, options: Mapping[str, str]) -> list[str]:
    source = passes.source(flag)
    lines = [f"  --{flag:<24} {summary}" + (f" ({source})" if source else "")]
    return lines + [f"      {name}={default or '…'}" for name, default in options.items()]


def extensions_listing() -> str:
    """The passes of installed extensions. Raises WeftError where one can't be loaded."""
    lines = [f"Extensions: {', '.join(map(str, extensions.loaded()))}"]
    for chosen in passes.every().values():
        if passes.source(chosen.flag) is not None:
            lines += _entry(chosen.flag, chosen.summary, chosen.options)
    return "\n".join(lines)


def dialects() -> str:
    """The names of all dialects, as `mlir-opt --show-dialects` prints them."""
    return f"Available Dialects: {','.join(names_in(new_context()))}"


def _define(definitions: ir.Module, context: ir.Context) -> None:
    """Loads the dialects of a file of IRDL. Raises WeftError for one that exists, which ends the process."""
    for op in operations(definitions, mlir.irdl.DialectOp):
        if mlir.symbol(op) in names_in(context):
            raise refuse(op, f"defines '{mlir.symbol(op)}', which weft-opt has: remove it, or rename it")
    mlir.irdl.load_dialects(definitions)


def run(options: Namespace, flags: Sequence[tuple[str, str]]) -> int:
    """Processes the input by chunks and writes their results, to a file only if all went well. Returns the
    exit status.
    """
    weft_to_binary.compiled_by(stages.lower_in_place)
    text, name = cli.read(options.input), cli.name_of(options.input)
    if options.run_reproducer:
        if (parts := reproduced(text)) is None:
            raise WeftError(
                f"--run-reproducer needs a file with 'mlir_reproducer' resources; {name} has none"
            )
        text, options.pass_pipeline = parts
    results, ok = [], True
    context = new_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    if options.irdl_file is not None:
        _define(mlir.parse_file(options.irdl_file, context), context)
    if options.mlir_disable_threading:
        context.enable_multithreading(False)
    remarks: list[Diagnostic] = []
    with instrumented(_instrumentation(options, remarks)):
        pipeline = _pipeline(options, flags, context)
        passes.check_printed(pipeline)
        if not options.no_implicit_module:
            passes.manager(pipeline, context)  # whose mistakes are the command line's, not the input's
        marker = options.split_input_file
        for chunk in [text] if marker is None else chunks(text, marker):
            result, diagnostics = _process(chunk, name, options, flags, context)
            diagnostics = [cli.renamed(d, "-", name) for d in remarks] + diagnostics
            remarks.clear()
            if options.verify_diagnostics:
                unexpected = options.verify_diagnostics == "all"
                diagnostics = verify_diagnostics.verify(diagnostics, chunk, name, unexpected)
            cli.report(diagnostics, "weft-opt")
            ok = ok and not any(d.severity == "error" for d in diagnostics)
            results.append(result)
    if ok or (options.output == "-" and (options.split_input_file or results != [None])):
        between = _MARKER if options.output_split_marker is None else options.output_split_marker
        # Bytecode is one module's; --split-input-file is refused with it.
        whole = (
            f"{between}\n".join(str(each or "") for each in results)
            if options.split_input_file
            else results[0]
        )
        cli.write(options.output, whole or "")
    return 0 if ok else 1


def chunks(text: str, marker: str = _MARKER) -> Iterator[str]:
    """The parts of a split file, each behind as many empty lines as its first line's number asks for."""
    start, lines = 0, re.compile(rf"^{re.escape(marker)}[ \t]*(?:\n|\Z)", re.MULTILINE)
    for match in [*lines.finditer(text), None]:
        end = match.start() if match else len(text)
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = match.end() if match else end


def _process(
    text: str, name: str, options: Namespace, flags: Sequence[tuple[str, str]], context: ir.Context
) -> tuple[str | bytes | None, list[Diagnostic]]:
    """One chunk's result, None where it failed, and everything that was said about it."""
    diagnostics: list[Diagnostic] = []

    def hear(info: ir.DiagnosticInfo) -> bool:
        diagnostics.append(mlir.diagnostic(info, name))
        return True

    # Errors come with the exception that ends the work; this hears the rest.
    handler = context.attach_diagnostic_handler(hear)
    result = None
    try:
        with cli.speaking_of(name), mlir.located(name):
            result = _transform(text, name, options, flags, context)
    except WeftError as error:
        diagnostics += error.diagnostics
    handler.detach()
    return result, diagnostics


def _transform(
    text: str, name: str, options: Namespace, flags: Sequence[tuple[str, str]], context: ir.Context
) -> str | bytes:
    # A file keeps its name in locations; a part of one, a pipe and stdin are parsed from memory.
    whole = not (options.split_input_file or options.run_reproducer)
    module: ir.Operation | ir.Module
    if options.no_implicit_module:
        module = mlir.parse_operation(text, context, name)
    elif whole and Path(options.input).is_file():
        module = mlir.parse_file(options.input, context)
    else:
        module = mlir.parse(text, context, name)
    manager = passes.manager(_pipeline(options, flags, context), context, module.operation.name)
    manager.enable_verifier(options.verify_each and not options.no_verify)
    manager.run(module.operation)
    del manager  # prints its timing
    phase.enter("printing the result")
    if options.emit_bytecode:
        module.operation.write_bytecode(stream := io.BytesIO())
        return stream.getvalue()
    return _printed(module, options, name)


def _printed(module: ir.Operation | ir.Module, options: Namespace, name: str) -> str:
    """The result as text. Raises WeftError where --verify-roundtrip finds another module in it."""
    if options.verify_roundtrip:
        text, other = str(module), new_context()
        other.allow_unregistered_dialects = options.allow_unregistered_dialect
        if str(mlir.parse(text, other, name)) != text:
            raise WeftError(f"{name}: the result isn't the same after it was printed and parsed")
    written = str(
        module.operation.get_asm(
            enable_debug_info=options.mlir_print_debuginfo or options.mlir_pretty_debuginfo,
            pretty_debug_info=options.mlir_pretty_debuginfo,
            print_generic_op_form=options.mlir_print_op_generic,
            use_local_scope=options.mlir_print_local_scope,
            use_name_loc_as_prefix=options.mlir_use_nameloc_as_prefix,
            skip_regions=options.mlir_print_skip_regions,
            large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
            large_resource_limit=options.mlir_elide_resource_strings_if_larger,
            assume_verified=options.verify_each and not options.no_verify,
        )
    )
    return written if options.mlir_print_local_scope else mlir_text.with_aliases(written)


def _pipeline(options: Namespace, flags: Sequence[tuple[str, str]], context: ir.Context) -> str | None:
    """The pipeline that the command line asks for, if any. Raises WeftError for an unknown pass."""
    if options.pass_pipeline is not None:
        return str(options.pass_pipeline)
    return ",".join(str(_nested(Element(name, text), context)) for name, text in flags) or None


def _instrumentation(options: Namespace, remarks: list[Diagnostic]) -> Instrumentation:
    """What the command line wants to see of passes; `remarks` takes those about candidates
    and about what isn't raised."""
    wanted = printing(options)
    pattern = re.compile(options.remarks_filter or "")

    def remark(said: Diagnostic) -> None:
        if pattern.search(said.message):
            remarks.append(said)

    return replace(
        wanted,
        after_change=bool(options.mlir_print_ir_after_change),
        after_failure=bool(options.mlir_print_ir_after_failure),
        module_scope=bool(options.mlir_print_ir_module_scope),
        debug_info=bool(options.mlir_print_debuginfo),
        generic=bool(options.mlir_print_op_generic),
        timing=bool(options.mlir_timing),
        statistics=(options.mlir_pass_statistics_display or "pipeline")
        if options.mlir_pass_statistics
        else None,
        explain=remark if options.tile_explain_dispatch else None,
        remark=remark,
    )


def _nested(element: Element, context: ir.Context) -> Element:
    """A flag's pass, below the operation that upstream restricts it to: `mlir-opt` nests flags too."""
    try:
        with instrumented(Instrumentation()):
            passes.manager(str(element), context)
    except WeftError as error:
        if "does not refer to a registered pass" in str(error):
            meant = did_you_mean(f"--{element.name}", [*NAMES, *(f"--{name}" for name in passes.names())])
            what = f"--{element.name} is no option and no pass; --list-passes shows Weft's"
            raise WeftError(f"{what}{meant}") from None
        restricted = re.search(r"restricted to '([\w.]+)'", str(error))
        if restricted is None:
            raise
        return Element(restricted[1], inner=(element,))
    return element
