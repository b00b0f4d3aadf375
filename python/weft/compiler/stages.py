"""From a module to kernels that can run: the stages, each a function of the one before, and what they leave
behind.
"""

import base64
import contextlib
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft import disk_cache as cache
from weft import garbage, idle, mlir, passes, phase
from weft.compiler import cache_keys, checks, codegen, ptxas, translation
from weft.compiler import cubin as elf
from weft.compiler.kernel_functions import is_lowered, kernels
from weft.compiler.launch_record import Launch
from weft.compiler.read_launch import read_launch
from weft.dialects import context as new_context
from weft.dialects import dialects, instruction_ops
from weft.dialects.op import kind_of, target_of
from weft.dialects.tile import MatmulOp
from weft.errors import WeftError, shown
from weft.isa.chips import WARPGROUP
from weft.isa.computed import computed
from weft.isa.suggest import did_you_mean
from weft.mlir import gpu, ir, llvm, operations
from weft.passes import raise_linalg
from weft.passes.analysis import unlowered
from weft.passes.builders import named_sums, votes
from weft.passes.plain.real import is_own_call
from weft.passes.registry import instrumentation
from weft.schedules import database
from weft.target import Target, with_default_note

KERNEL = "weft-kernel{{chip={chip} rows={rows}}}"
INSTRUCTIONS = "weft-to-instructions"
LLVM = "weft-to-llvm"
_PRODUCT, _WIDEST = "wgmma.mma_async", ".m64n256k"
"""In the instructions of `wgmma`, and in those with most sums."""


@dataclass(frozen=True)
class Compiled:
    """A module on its way to a chip: what each stage made of it.

    Attributes are made when first asked for, so that a caller who wants PTX pays for no ptxas. `bytecode` is
    the module before any pass, `ptx_version` what the chip and every instruction need.
    """

    bytecode: bytes
    name: str
    target: Target
    ptx_version: tuple[int, int]
    llvm: str
    launches: dict[str, Launch]
    rows: str = "aligned"

    @computed
    def source(self) -> str:
        """The text of the module before any pass, which takes ten times as long as bytecode."""
        return str(self.module())

    def module(self) -> Any:
        """A copy of the module before any pass, in a context of its own."""
        return mlir.parse_bytecode(self.bytecode, new_context(), self.name)

    @computed
    def ptx(self) -> str:
        """The PTX that LLVM makes. Raises WeftError where LLVM can't."""
        chip, version = self.target.chip.name, self.ptx_version

        def key(present: bool) -> cache.Key | None:
            decides = cache_keys.generating(present)
            return decides and [self.llvm, chip, repr(version), *decides]

        def generate() -> bytes:
            level, chosen = codegen.OPT_LEVEL, self._llvm_passes
            return codegen.to_ptx(self.llvm, chip, version, opt_level=level, passes=chosen).ptx.encode()

        return cache.default().get_or_make("ptx", key, generate).decode()

    @property
    def _llvm_passes(self) -> str:
        """The passes of LLVM that make kernels of `wgmma` as fast as level 3 does: few if several warpgroups
        multiply, with sums in named registers or of 256 columns, and some if sums are values. Small products
        keep level 3, and functions that call others need it.
        """
        threads = [launch.block[0] for launch in self.launches.values() if launch.block is not None]
        several, named = min(threads, default=0) > 2 * WARPGROUP, named_sums.are_declared(self.llvm)
        if several and (named or _WIDEST in self.llvm):
            return codegen.FEW
        multiplies = _PRODUCT in self.llvm and not named and self.llvm.count("\ndefine ") == 1
        return codegen.SOME if multiplies else codegen.ALL

    @computed
    def assembled(self) -> ptxas.Assembled:
        """The cubin, and the registers and spills of each kernel. Raises WeftError where ptxas can't."""
        with idle.postponing(), contextlib.closing(ptxas.Early(self.target.chip.name)) as early:
            idle.meanwhile(early.start)  # while LLVM runs
            return self._assembled(early)

    def _assembled(self, early: ptxas.Early) -> ptxas.Assembled:
        chip, ptx = self.target.chip.name, self.ptx
        assembled: list[ptxas.Assembled] = []

        def key(present: bool) -> cache.Key | None:
            decides = cache_keys.assembling(present)
            return decides and [ptx, chip, *decides]

        def assemble() -> bytes:
            assembled.append(early.assemble(ptx))
            return _packed(assembled[0])

        def valid(entry: bytes) -> bool:
            return elf.complaint(_unpacked(entry).cubin, chip, self.launches) is None

        entry = cache.default().get_or_make("cubin", key, assemble, valid)
        return assembled[0] if assembled else _unpacked(entry)

    @property
    def cubin(self) -> bytes:
        """The machine code."""
        return self.assembled.cubin

    @property
    def sass(self) -> str:
        """The machine code, disassembled. Raises WeftError with no disassembler installed."""
        return ptxas.disassemble(self.cubin)

    def record(self) -> dict[str, Any]:
        """What it is made of as plain values, from which `of_record` makes it again."""
        kept = {name: getattr(self, name) for name in ("name", "ptx_version", "llvm", "rows")}
        launches = [launch.record() for launch in self.launches.values()]
        bytecode = base64.b64encode(self.bytecode).decode()
        return kept | {"bytecode": bytecode, "target": str(self.target), "launches": launches}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "Compiled":
        """The module that such a record describes, also after a round trip through JSON."""
        launches = [Launch.of_record(each) for each in record["launches"]]
        major, minor = record["ptx_version"]
        bytecode, name, llvm, rows = (record[each] for each in ("bytecode", "name", "llvm", "rows"))
        target, by_name = Target.of(record["target"]), {launch.name: launch for launch in launches}
        return cls(base64.b64decode(bytecode), name, target, (major, minor), llvm, by_name, rows)

    def stages(self) -> tuple[str, ...]:
        """The passes that made the kernel, in order: what `ir` can show."""
        return tuple(str(e) for e in passes.elements(_pipeline(self.target, self.rows)))

    def ir(self, after: str) -> str:
        """The module's IR after the pass or pipeline element `after` (its first occurrence); `source` is the
        text before all.

        Raises WeftError for a pass that isn't among `stages`.
        """
        if after == "source":
            return self.source
        done: list[str] = []
        for element in self.stages():
            done.append(element)
            if after in (element, _bare(element)):
                module = self.module()
                _run(module, ",".join(done), self.name)
                return str(module)
        stages = ("source", *self.stages())
        meant = did_you_mean(after, [name for stage in stages for name in (stage, _bare(stage))])
        raise WeftError(f"no stage '{after}': the stages are {', '.join(stages)}{meant}")


def _bare(stage: str) -> str:
    """The name of a stage's pass: without options, and without the operation that it is nested in."""
    return stage.split("{")[0].rpartition("(")[2].rstrip(")")


def compile_module(
    module: Any,
    arch: str | None = None,
    *,
    name: str = "-",
    default: str | None = None,
    rows: str = "aligned",
    own: bool = False,
) -> Compiled:
    """Takes a module (an `ir.Module`, .mlir text, or a Path) down to LLVM IR for a chip.

    The chip is `arch`, or otherwise the one that the module's `gpu.module` names, or otherwise `default`.
    `rows` of matrices may be "aligned" for the fastest kernel, or "any". A module that is the caller's `own`,
    whose context no other thread uses, is changed; others are copied. Raises WeftError with the source
    location of each mistake.
    """
    ours = own or isinstance(module, Path | str)
    if isinstance(module, Path):
        name, module = str(module), mlir.parse_file(module, new_context())
    elif isinstance(module, str):
        module = mlir.parse(module, new_context(), name)
    elif not _is_module(module):
        wanted = "a weft.Module, an MLIR module, .mlir text or a Path"
        raise WeftError(f"module must be {wanted}, got {shown(module)}")
    if raise_linalg.wanted(module):
        module, ours = module if ours else _apart(module), True
        raise_linalg.raise_or_refuse(module)
    with mlir.only_reachable_blocks(module):
        checks.names(module)
        unlowered.check(module)
        checks.sizes(module)
        target, assumed = _target(module, arch, default)
        try:
            return _compile(module, target, name, rows, ours=ours)
        except WeftError as error:
            raise (with_default_note(error, target) if assumed else error) from None


def _is_module(value: Any) -> bool:
    known = isinstance(value, ir.Module | ir.Operation | ir.OpView)
    return known and value.operation.name == "builtin.module"


def _compile(module: Any, target: Target, name: str, rows: str, *, ours: bool) -> Compiled:
    """What `compile_module` makes of a module. One that is `ours` may be changed."""
    on_disk = cache.default()
    # What is to be shown of the passes shows only where they run.
    if on_disk.directory is None or not decides_all(module) or instrumentation.current().watches:
        return _lowered(module if ours else _apart(module), target, name, rows)
    compiled: list[Compiled] = []
    bytecode = _bytecode(module)  # LLVM IR has the locations of operations

    def lower() -> bytes:
        if not phase.shared():  # a process that only lowers needs no LLVM
            codegen.start()
        compiled.append(_lowered(module if ours else _apart(module), target, name, rows))
        return to_entry(compiled[0].record())

    def key(present: bool) -> cache.Key | None:
        return _key(bytecode, target, name, rows, present)

    entry = on_disk.get_or_make("llvm", key, lower)
    return compiled[0] if compiled else of_entry(entry)


def _key(bytecode: bytes, target: Target, name: str, rows: str, present: bool) -> cache.Key | None:
    """The key of what a module is lowered to."""
    decides = cache_keys.lowering(present)
    return decides and [bytecode, str(target), name, rows, *decides]


def kept(bytecode: bytes, arch: str) -> Compiled | None:
    """What `compile_module` has made for a chip of a module without a name, with these bytes, if it is on
    disk.
    """
    key = (
        None if instrumentation.current().watches else _key(bytecode, Target.of(arch), "-", "aligned", False)
    )
    entry = cache.default().find("llvm", key)
    return None if entry is None else of_entry(entry)


def decides_all(module: Any) -> bool:
    """Whether only the module and Weft's code determine what it is lowered to. A product without a schedule
    also depends on the files of tuned schedules, where any are asked.
    """
    if not database.asks_files():
        return True
    return all("schedule" in op.attributes for op in operations(module, MatmulOp))


def _lowered(module: Any, target: Target, name: str, rows: str) -> Compiled:
    """Lowers the module to LLVM IR in place, and returns it with its kernels' launches."""
    # One full collection of garbage takes as long as all passes, where PyTorch is imported.
    with garbage.uncollected():
        return _lowered_in_place(module, target, name, rows)


def _lowered_in_place(module: Any, target: Target, name: str, rows: str) -> Compiled:
    bytecode = _bytecode(module)
    checks.shared_bytes(module, {}, target)  # a buffer's gigabytes would wrap around in the kernel's sum
    pipeline = _pipeline(target, rows)
    passes.check_printed(pipeline)
    elements = [str(e) for e in passes.elements(pipeline)]
    split = elements.index("lower-wmma")
    _run(module, ",".join(elements[:split]), name)
    holders = [op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp)]
    if len(holders) != 1:
        raise WeftError(
            f"{name}: module must have one tile.matmul function or one gpu.module, got {len(holders)}"
        )
    functions = kernels(module)
    launches = {launch.name: launch for launch in map(read_launch, functions)}
    checks.shared_bytes(module, launches, target)
    if not launches:
        what = "a kernel (a gpu.func with the attribute 'kernel') or an llvm.func with 'nvvm.kernel'"
        raise WeftError(f"{name}: module must have {what}, got none")
    instructions = {kind_of(op.operation): op for op in operations(module, *instruction_ops(dialects()))}
    version = max((target.ptx, *(op.ptx_version for op in instructions.values())))
    if any(map(is_lowered, functions)):  # no operation is left that specifies the PTX that an intrinsic needs
        version = max(version, codegen.LAST_PTX)
    # Calls that our own passes haven't written name what they like, with operands as they like.
    calls = operations(module, llvm.CallIntrinsicOp)
    risky = not all(is_own_call(each) or votes.is_own_call(each) for each in calls)
    origins = checks.mathematics(module)
    _run(module, ",".join(elements[split:]), name)
    checks.library_calls(module, origins)
    holder = next(op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp))
    text = translation.translate(holder, apart=risky)
    return Compiled(bytecode, name, target, version, text, launches, rows)


def _apart(module: Any) -> Any:
    """A copy in a context of its own: passes of several threads in one would get each other's errors."""
    with mlir.located():
        return ir.Module.parse(_bytecode(module), new_context())


def _bytecode(module: Any) -> bytes:
    """The module with its locations."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def _pipeline(target: Target, rows: str) -> str:
    major, minor = target.ptx
    attach = f"nvvm-attach-target{{chip={target} features=+ptx{major}{minor}}}"
    return f"{KERNEL.format(chip=target, rows=rows)},{attach},{INSTRUCTIONS},{LLVM}"


def _run(module: Any, pipeline: str, name: str) -> None:
    with mlir.located(name):
        manager = passes.manager(pipeline, module.context)
        # Verifying after every pass costs more than the passes; once at the end checks the result as well.
        manager.enable_verifier(False)
        manager.run(module.operation)
        phase.enter("verifying what the passes made")
        module.operation.verify()


def _target(module: Any, arch: str | None, default: str | None) -> tuple[Target, bool]:
    """The chip to compile for, and whether it is the default; a module that names another than `arch` is
    refused.
    """
    named = [t for op in operations(module, gpu.GPUModuleOp) if (t := target_of(op.operation)) is not None]
    if arch is not None:
        target = Target.of(arch)
    elif named:
        target = named[0]
    elif default is not None:
        target = Target.of(default)
    else:
        raise WeftError("no chip to compile for: pass arch, for instance arch='sm_80'")
    for other in named:
        if other != target:
            raise WeftError(f"the module is for {other}, not for {target}: change or remove its #nvvm.target")
    return target, arch is None and not named


def to_entry(record: Mapping[str, Any]) -> bytes:
    """A record of a `Compiled` as the cache keeps it."""
    return zlib.compress(json.dumps(record).encode(), 1)


def of_entry(entry: bytes) -> Compiled:
    """The inverse of `to_entry`, from the record on."""
    return Compiled.of_record(json.loads(zlib.decompress(entry)))


def _packed(assembled: ptxas.Assembled) -> bytes:
    header = json.dumps(
        {"log": assembled.log, "kernels": {k: vars(r) for k, r in assembled.kernels.items()}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + assembled.cubin


def _unpacked(entry: bytes) -> ptxas.Assembled:
    end = 8 + int.from_bytes(entry[:8], "little")
    header = json.loads(entry[8:end])
    kernels = {k: ptxas.Resources(**r) for k, r in header["kernels"].items()}
    return ptxas.Assembled(entry[end:], kernels, header["log"])
