"""`weft compile`: a .mlir file as LLVM's dialect, LLVM IR, PTX, machine code or SASS, and its launches."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import cli, pass_printing
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.compiler.compiled import Compiled


def _arguments(parser: ArgumentParser) -> None:
    cli.declare(
        parser,
        """
        file FILE.mlir  the input; - is stdin
        --arch CHIP  the chip, such as sm_90a (default: the module's or the GPU's, otherwise sm_80)
        --emit {mlir,llvm,ptx,cubin,sass,launch,resources} = ptx  the form of the output (default: ptx)
        --after PASS  with --emit mlir: the IR after this pass (default: after all passes)
        --kernel NAME  the kernel to compile, if the file has several
        """,
    )
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="the output (default: stdout)")
    pass_printing.add_arguments(parser)


def _run(options: Namespace) -> int:
    if options.after is not None and options.emit != "mlir":
        raise WeftError(f"--after needs --emit mlir; got --emit {options.emit}")
    terminal = sys.stdout is not None and sys.stdout.isatty()
    if options.emit == "cubin" and options.output == "-" and terminal:
        raise WeftError("a cubin can't be printed to a terminal: name a file with -o")
    from weft.compiler.compiled import Compiled
    from weft.compiler.stages import compile_module
    from weft.ir.instrumentation import instrumented
    from weft.launch import runtime
    from weft.tools import source

    module = source.load(options.file, options.kernel)
    name = cli.name_of(options.file)
    default = None if options.arch else runtime.default_chip()

    def emit(compiled: Compiled) -> str | bytes:
        if options.emit == "mlir":
            return compiled.ir(options.after or compiled.stages()[-1])
        if options.emit == "launch":
            return _described(compiled)
        if options.emit == "resources":
            return _resources(compiled)
        output: str | bytes = getattr(compiled, options.emit)
        return output

    wanted = replace(pass_printing.printing(options), explain=pass_printing.explaining(options, name))
    with cli.speaking_of(name):
        with instrumented(wanted):
            compiled = compile_module(module, options.arch, name=name, default=default)
        result = emit(compiled)
    if isinstance(result, str) and not result.endswith("\n"):
        result += "\n"
    cli.write(options.output, result)
    return 0


def _resources(compiled: "Compiled") -> str:
    """JSON with what a launch of each kernel takes."""
    from dataclasses import asdict

    from weft.launch.kernel import Kernel

    kernels = [Kernel(compiled, launch) for launch in compiled.launches.values()]
    return json.dumps({kernel.name: asdict(kernel.resources) for kernel in kernels}, indent=2)


def _described(compiled: "Compiled") -> str:
    """JSON with a line for each thing that a launch needs, and the registers where it has the stages too."""
    from weft.launch.kernel import Kernel

    kernels = []
    for launch in compiled.launches.values():
        described = launch.description()
        if launch.tensor_columns or launch.stages:
            described["registers"] = Kernel(compiled, launch).resources.registers
        lines = (f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in described.items())
        kernels.append(f"  {json.dumps(launch.name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(kernels) + "\n}"


COMPILE = Command("compile", "compile a .mlir file for a chip", _arguments, _run)
