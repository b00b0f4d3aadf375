"""What LLVM prints for forms of the instruction tables: a kernel that calls each form's intrinsic."""

import re
from collections import defaultdict
from collections.abc import Iterable

from weft.compiler import codegen
from weft.isa.chips import CHIPS
from weft.isa.family import Form, Registers

PTX = (9, 0)  # the newest that LLVM 22.1 writes


def printed(points: Iterable[tuple[Form, str]]) -> dict[tuple[Form, str], list[str]]:
    """The opcodes with the form's head (`mma`, `ldmatrix`, …) in the PTX of each form's kernel, from one LLVM
    module a chip.
    """
    chips: dict[str, list[Form]] = defaultdict(list)
    for form, chip in dict.fromkeys(points):
        chips[chip].append(form)
    found = {}
    for chip, forms in chips.items():
        text = "".join(kernel(i, form) for i, form in enumerate(forms))
        declared = dict.fromkeys(re.findall(r"^declare .*$", text, re.MULTILINE))
        text = "\n".join([*declared, re.sub(r"^declare .*\n", "", text, flags=re.MULTILINE)])
        kernels = codegen.to_ptx(text, chip, max(CHIPS[chip].ptx, PTX)).ptx.split(".entry ")[1:]
        for form, body in zip(forms, kernels, strict=True):
            head = form.ptx.split(".")[0]
            found[form, chip] = re.findall(rf"^\s*({head}\.[\w.:]+)", body, re.MULTILINE)
    return found


def kernel(number: int, form: Form) -> str:
    """LLVM IR that calls the form's intrinsic on the kernel's arguments and stores each result."""
    results = [r for r in form.operands if r.role == "out"]
    inputs = [r for r in form.operands if r.role != "out"]
    flat = [(llvm_type(r.type), r) for r in inputs for _ in range(r.count)]
    types = [kind for kind, _ in flat]
    arguments = [
        f"{kind} {r.values[0]}" if r.role == "immediate" else f"{kind} %a{i}"
        for i, (kind, r) in enumerate(flat)
    ]
    parameters = "".join(f", {kind} %a{i}" for i, (kind, r) in enumerate(flat) if r.role != "immediate")
    whole, stores = _result(results)
    call = f"call {whole} @{form.intrinsic}({', '.join(arguments)})"
    lines = "\n  ".join([f"%d = {call}" if results else call, *stores, "ret void"])
    return (
        f"declare {whole} @{form.intrinsic}({', '.join(types)})\n"
        f"define ptx_kernel void @k{number}(ptr %p{parameters}) {{\n  {lines}\n}}\n"
    )


def _result(results: list[Registers]) -> tuple[str, list[str]]:
    """The type that the intrinsic returns, and what stores its parts."""
    types = [llvm_type(r.type) for r in results for _ in range(r.count)]
    if not types:
        return "void", []
    if len(types) == 1:
        return types[0], [f"store volatile {types[0]} %d, ptr %p"]
    whole = f"{{{', '.join(types)}}}"
    stores = []
    for i, kind in enumerate(types):
        stores += [f"%e{i} = extractvalue {whole} %d, {i}", f"store volatile {kind} %e{i}, ptr %p"]
    return whole, stores


def llvm_type(kind: str) -> str:
    """An MLIR type's LLVM spelling."""
    if vector := re.fullmatch(r"vector<(\d+)x(\w+)>", kind):
        return f"<{vector[1]} x {llvm_type(vector[2])}>"
    if pointer := re.fullmatch(r"!llvm\.ptr<(\d+)>", kind):
        return f"ptr addrspace({pointer[1]})"
    return {"f16": "half", "f32": "float", "f64": "double", "!llvm.ptr": "ptr"}.get(kind, kind)
