"""Checks of modules before they are compiled, beyond those of verifiers and passes: each function raises
WeftError with the source location of the mistake.
"""

from weft import mlir
from weft.compiler.kernel_functions import argument_types, kernels
from weft.compiler.launch_record import Launch
from weft.dialects.op import refuse
from weft.dialects.tile import AllocOp, MatmulOp
from weft.errors import Diagnostic, WeftError
from weft.isa.launch_limits import size_complaint
from weft.isa.text import identifiers
from weft.mlir import func, gpu, ir, llvm, operations
from weft.passes.lower_buffers import SYMBOL as SHARED_MEMORY
from weft.passes.plain.functions import is_plain
from weft.target import Target


def names(module: ir.Module | ir.OpView) -> None:
    """Raises WeftError for functions whose names PTX can't have, which LLVM writes as they are."""
    products = [f for f in operations(module, func.FuncOp) if is_plain(f) or operations(f, MatmulOp)]
    for function in (*products, *operations(module, gpu.GPUFuncOp), *kernels(module)):
        name = mlir.symbol(function)
        if complaint := identifiers.function_complaint(name):
            raise refuse(function, complaint)
        if name == SHARED_MEMORY:
            raise refuse(function, f"can't have the name '{name}': a kernel's shared memory has it")


def sizes(module: ir.Module | ir.OpView) -> None:
    """Raises WeftError for matrices of sizes that no launch can have."""
    signatures = [(f, f.attributes["function_type"].value.inputs) for f in operations(module, func.FuncOp)]
    for function, kinds in (*signatures, *((k, argument_types(k)) for k in kernels(module))):
        for kind in kinds:
            for number in range(kind.rank) if isinstance(kind, ir.MemRefType) else ():
                complaint = None if kind.is_dynamic_dim(number) else size_complaint(kind.shape[number])
                if complaint:
                    raise refuse(function, f"has an argument of type {kind}: {complaint}")


def shared_bytes(module: ir.Module | ir.OpView, launches: dict[str, Launch], target: Target) -> None:
    """Raises WeftError for a buffer or a kernel that no launch on the chip can give its shared memory."""
    holding = [(k, launches[mlir.symbol(k)].shared_bytes) for k in kernels(module)] if launches else []
    taken: list[tuple[ir.OpView, int]] = [(op, op.buffer.type.bytes) for op in operations(module, AllocOp)]
    for op, count in (*taken, *holding):
        if count > target.chip.shared_bytes:
            limit = f"at most {target.chip.shared_bytes} bytes on {target}"
            raise refuse(op, f"shared memory must be {limit}, got {count}: use smaller tiles or fewer stages")


def library_calls(module: ir.Module | ir.OpView) -> None:
    """Raises WeftError for calls that nothing would resolve."""
    defined = {
        str(f.attributes["sym_name"]).strip('"') for f in operations(module, llvm.LLVMFuncOp) if f.body.blocks
    }
    calls = []
    for call in operations(module, llvm.CallOp):
        callee, location = str(call.callee).removeprefix("@"), mlir.location(call.location)
        if callee.startswith("__nv_") and callee not in defined:
            what = f"'llvm.call' op needs {callee} of CUDA's device library, which Weft doesn't link"
            calls.append(Diagnostic(what, location))
    if calls:
        raise WeftError(*dict.fromkeys(calls))  # a vector's elements have a call each
