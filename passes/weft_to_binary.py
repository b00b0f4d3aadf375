"""`--weft-to-binary`: replaces each `gpu.module` by a `gpu.binary` with its code for one or several chips.

Upstream's `--gpu-to-llvm` and a host's own lowering go on from there. `chips=sm_80,sm_90a` makes an object
for each; by default, the chips are those of the module's `#nvvm.target`s. `format` is `isa` for PTX or `bin`
for machine code. Each object has a table of its kernels, with the attributes that specify their launches.
"""

import re
from collections.abc import Callable
from typing import Any

from weft import mlir
from weft.dialects.op import refuse
from weft.errors import WeftError
from weft.mlir import gpu, ir, llvm, operations
from weft.passes.registry.pass_ import Pass
from weft.target import Target

_FORMATS = {"isa": 2, "bin": 3}  # upstream's names, and its numbers of formats of objects
_MARKS = ("gpu.kernel", "nvvm.kernel")
_CHOOSER = "#gpu.select_object"  # upstream's default, the first object; without it, printing crashes
_compile: Callable[[Any, str], Any] | None = None


def compiled_by(compile: Callable[[Any, str], Any]) -> None:
    """Sets what lowers a module in place, for a chip, and returns it as a `weft.compiler.compiled.Compiled`:
    the compiler comes after the passes in the order of imports.
    """
    global _compile
    _compile = compile


def run(module: ir.Operation, chips: str = "", format: str = "isa") -> None:
    """Replaces every `gpu.module`, at any depth."""
    if format not in _FORMATS:
        raise WeftError(f"pass 'weft-to-binary': format must be isa or bin; got {format}")
    if module.operation.name == gpu.GPUModuleOp.OPERATION_NAME:
        raise refuse(module.opview, "is replaced by --weft-to-binary, which must run on what holds it")
    named = [chip for chip in chips.split(",") if chip]
    for chip in named:
        Target.of(chip)
    holders = operations(module, gpu.GPUModuleOp)
    for holder in holders:
        if holder.operation.parent.name == gpu.GPUModuleOp.OPERATION_NAME:
            raise refuse(holder, "must not stand in another gpu.module, got one in one: move it out")
    for holder in holders:
        attributes = holder.operation.attributes
        declared = {}
        for target in attributes.get("targets", ()):
            if str(target).startswith("#nvvm.target"):
                declared[_parameter(target, r'chip = "(.*?)"', "sm_75")] = target
        if not named and not declared:
            raise refuse(holder, "has no chip: give it an #nvvm.target, or use --weft-to-binary=chips=sm_90a")
        targets = [(chip, declared.get(chip)) for chip in named or declared]
        objects = [_object(holder, chip, target, format) for chip, target in targets]
        with ir.InsertionPoint(holder.operation), holder.location:
            chooser = holder.operation.attributes.get("offloadingHandler", ir.Attribute.parse(_CHOOSER))
            gpu.BinaryOp(mlir.symbol(holder), ir.ArrayAttr.get(objects), offloadingHandler=chooser)
        holder.operation.erase()


def _parameter(target: ir.Attribute, pattern: str, default: str) -> str:
    """A parameter of an `#nvvm.target`, which isn't printed if it is upstream's default."""
    found = re.search(pattern, str(target))
    return found[1] if found else default


def _object(holder: ir.OpView, chip: str, target: ir.Attribute | None, format: str) -> ir.Attribute:
    """The `#gpu.object` with the code of a module for a chip."""
    if _compile is None:
        raise WeftError("--weft-to-binary runs in weft-opt alone")
    with holder.location:
        alone = ir.Module.create()
    copy = holder.operation.clone(ip=ir.InsertionPoint(alone.body))
    if target is None and "targets" in copy.attributes:
        del copy.attributes["targets"]
    elif target is not None:
        copy.attributes["targets"] = ir.ArrayAttr.get([target])
    try:
        compiled = _compile(alone, chip)
    except WeftError as error:
        if error.diagnostics[0].location is not None:
            raise
        message = error.diagnostics[0].message.removeprefix("-: ")
        raise refuse(holder, f"can't be compiled for {chip}: {message}") from None
    code = compiled.ptx.encode() if format == "isa" else compiled.cubin
    if target is None:
        major, minor = compiled.ptx_version
        target = ir.Attribute.parse(f'#nvvm.target<O = 3, chip = "{chip}", features = "+ptx{major}{minor}">')
    functions = [f for f in operations(alone, llvm.LLVMFuncOp) if mlir.symbol(f) in compiled.launches]
    table = ir.Attribute.parse(f"#gpu.kernel_table<[{', '.join(map(_metadata, functions))}]>")
    level = _parameter(target, r"O = (\d)", "2")
    properties = ir.Attribute.parse(f"{{O = {level} : i32}}")
    return gpu.ObjectAttr.get(target, _FORMATS[format], code, properties, table)


def _metadata(kernel: ir.OpView) -> str:
    """A kernel's entry in the table: its type, and the attributes of its arguments and its launch."""
    attributes = kernel.operation.attributes
    launch = {name: attributes[name] for name in attributes if "." in name and name not in _MARKS}
    parts = [str(attributes["sym_name"]), str(attributes["function_type"])]
    if "arg_attrs" in attributes:
        parts.append(f"arg_attrs = {attributes['arg_attrs']}")
    return f"#gpu.kernel_metadata<{', '.join(parts)}, metadata = {ir.DictAttr.get(launch)}>"


WEFT_TO_BINARY = Pass(
    "weft-to-binary",
    "replace each gpu.module by a gpu.binary with PTX or machine code for some chips",
    run,
    {"chips": "", "format": "isa"},
    of_kernels=False,
)
