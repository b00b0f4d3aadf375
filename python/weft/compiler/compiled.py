"""A module on its way to a chip, from LLVM IR on, and as the cache keeps it. A kernel that is on disk needs
neither the passes nor MLIR.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cache import disk_cache as cache
from weft.compiler import cache_keys, codegen, ptxas
from weft.compiler import cubin as elf
from weft.compiler.launch_record import Launch
from weft.errors import WeftError
from weft.ir import instrumentation, mlir_text
from weft.isa.chips import WARPGROUP
from weft.isa.computed import computed
from weft.isa.suggest import did_you_mean
from weft.target import Target

if TYPE_CHECKING:
    from weft.mlir import ir

_PRODUCT = "wgmma.mma_async"
"""In the instructions of `wgmma`."""
_WIDEST = (".m64n256k",), (".m64n128k32.f32.e", "%f32x128 = type")
"""In kernels with products of 256 columns: in one instruction, or in two of fp8 and in their sums."""


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
        return mlir_text.with_aliases(str(self.module()))

    def module(self) -> "ir.Module":
        """A copy of the module before any pass, in a context of its own."""
        from weft import mlir
        from weft.dialects import context

        return mlir.parse_bytecode(self.bytecode, context(), self.name)

    @computed
    def ptx(self) -> str:
        """The PTX that LLVM makes. Raises WeftError where LLVM can't."""
        chip, version, decides = self.target.chip.name, self.ptx_version, cache_keys.generating()
        key = decides and [self.llvm, chip, repr(version), *decides]

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
        from weft.passes.builders import named_sums

        threads = [launch.block[0] for launch in self.launches.values() if launch.block is not None]
        several, named = min(threads, default=0) > 2 * WARPGROUP, named_sums.are_declared(self.llvm)
        wide = any(all(part in self.llvm for part in parts) for parts in _WIDEST)
        if several and (named or wide):
            return codegen.FEW
        multiplies = _PRODUCT in self.llvm and not named and self.llvm.count("\ndefine ") == 1
        return codegen.SOME if multiplies else codegen.ALL

    @computed
    def assembled(self) -> ptxas.Assembled:
        """The cubin, and the registers and spills of each kernel. Raises WeftError where ptxas can't."""
        chip, ptx, decides = self.target.chip.name, self.ptx, cache_keys.assembling()
        assembled: list[ptxas.Assembled] = []
        key = decides and [ptx, chip, *decides]

        def assemble() -> bytes:
            assembled.append(ptxas.assemble(ptx, chip))
            return _packed(assembled[0])

        def valid(entry: bytes) -> bool:
            return elf.complaint(_unpacked(entry).cubin, chip, self.launches) is None

        def same() -> bool:
            return cache_keys.assembling() == decides

        entry = cache.default().get_or_make("cubin", key, assemble, valid, same)
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
        """Returns its parts as plain values, from which `of_record` makes it again."""
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
        from weft.compiler import pipeline

        return tuple(pipeline.elements(self.target, self.rows))

    def ir(self, after: str) -> str:
        """The module's IR after the pass or pipeline element `after` (its first occurrence); `source` is the
        text before all.

        Raises WeftError for a pass that isn't among `stages`.
        """
        if after == "source":
            return self.source
        from weft.compiler import pipeline

        done: list[str] = []
        for element in self.stages():
            done.append(element)
            if after in (element, _bare(element)):
                module = self.module()
                pipeline.run(module, ",".join(done), self.name)
                return mlir_text.with_aliases(str(module))
        stages = ("source", *self.stages())
        meant = did_you_mean(after, [name for stage in stages for name in (stage, _bare(stage))])
        raise WeftError(f"no stage '{after}': the stages are {', '.join(stages)}{meant}")


def _bare(stage: str) -> str:
    """The name of a stage's pass: without options, and without the operation that it is nested in."""
    return stage.split("{")[0].rpartition("(")[2].rstrip(")")


def key_of(bytecode: bytes, target: Target, name: str, rows: str) -> cache.Key | None:
    """The key of what a module is lowered to."""
    decides = cache_keys.lowering()
    return decides and [bytecode, str(target), name, rows, *decides]


def kept(bytecode: bytes, arch: str) -> Compiled | None:
    """Finds the result of `compile_module` on disk, for a chip and a module without a name, with these bytes.
    None if it isn't there.
    """
    if instrumentation.current().watches:
        return None
    key = key_of(bytecode, Target.of(arch), "-", "aligned")
    entry = cache.default().find("llvm", key)
    return None if entry is None else of_entry(entry)


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
