"""`tcgen05.alloc`, `dealloc`, `relinquish_alloc_permit`, `commit`, `wait` and `fence`: tensor memory's
allocation and the order of asynchronous work (PTX ISA, "Tensor Memory Allocation and Management
Instructions" and the sections on `tcgen05.commit`, `tcgen05.wait` and `tcgen05.fence`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from weft.isa.family import Registers, Support, Verdict
from weft.isa.tcgen05.form import (
    ALL,
    CTA_GROUPS,
    SM_107,
    TENSOR_ADDRESS,
    Instruction,
    Tcgen05Family,
    modifiers,
    take,
    take_number,
)
from weft.isa.unpublished import Unpublished

_COLUMNS = (32, 64, 128, 256, 512)
# `.exclusive`: any multiple of 32. Columns beyond 512 exist on sm_107 alone, but ptxas takes them anywhere.
_EXCLUSIVE_COLUMNS = tuple(range(32, 577, 32))


def _columns(exclusive: bool) -> Registers:
    """A register or a constant; `values` are the legal constants."""
    return Registers("columns", 1, "i32", values=_EXCLUSIVE_COLUMNS if exclusive else _COLUMNS)


def _exclusive(exclusive: bool) -> str:
    return ".exclusive" if exclusive else ""


@dataclass(frozen=True)
class Alloc(Instruction):
    """One form of `tcgen05.alloc`: one warp allocates columns and writes their address to shared memory,
    which is given by a generic address where `space` is empty.
    """

    cta_group: int
    space: str = ""
    exclusive: bool = False

    @property
    def ptx(self) -> str:
        space = f".{self.space}" if self.space else ""
        return (
            f"tcgen05.alloc{_exclusive(self.exclusive)}.cta_group::{self.cta_group}.sync.aligned{space}.b32"
        )

    @property
    def intrinsic(self) -> str | None:
        if self.exclusive:
            return None
        return f"llvm.nvvm.tcgen05.alloc{'.shared' if self.space else ''}.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Where the address goes, and how many columns."""
        return (
            Registers("address", 1, "!llvm.ptr<3>" if self.space else "!llvm.ptr"),
            _columns(self.exclusive),
        )

    @property
    def assembly(self) -> str:
        return "[{address}], {columns}"


@dataclass(frozen=True)
class Dealloc(Instruction):
    """One form of `tcgen05.dealloc`: one warp frees what one `tcgen05.alloc` gave."""

    cta_group: int
    exclusive: bool = False

    @property
    def ptx(self) -> str:
        return f"tcgen05.dealloc{_exclusive(self.exclusive)}.cta_group::{self.cta_group}.sync.aligned.b32"

    @property
    def intrinsic(self) -> str | None:
        return None if self.exclusive else f"llvm.nvvm.tcgen05.dealloc.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The allocation's address in tensor memory, and how many columns."""
        return Registers("address", 1, TENSOR_ADDRESS), _columns(self.exclusive)

    @property
    def assembly(self) -> str:
        return "{address}, {columns}"


@dataclass(frozen=True)
class RelinquishAllocPermit(Instruction):
    """`tcgen05.relinquish_alloc_permit`: the CTA will allocate no more."""

    cta_group: int

    @property
    def ptx(self) -> str:
        return f"tcgen05.relinquish_alloc_permit.cta_group::{self.cta_group}.sync.aligned"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.relinq.alloc.permit.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """None."""
        return ()

    @property
    def assembly(self) -> str:
        return ""


@dataclass(frozen=True)
class Commit(Instruction):
    """One form of `tcgen05.commit`: an mbarrier learns when the thread's earlier tcgen05 work is done.

    `multicast` is the width in bits of the mask of CTAs whose mbarriers are signalled, 0 for the one at the
    address; an empty `space` means a generic address. `sync_restrict` narrows what is waited for.
    """

    cta_group: int
    space: str = ""
    multicast: int = 0
    sync_restrict: str = ""

    @property
    def ptx(self) -> str:
        restrict = f".sync_restrict::{self.sync_restrict}" if self.sync_restrict else ""
        space = f".{self.space}" if self.space else ""
        # 16 bits were all there was before PTX 9.4, and need no name since.
        named = {0: "", 16: ".multicast::cluster"}
        multicast = named.get(self.multicast, f".multicast::cluster::{self.multicast}b")
        signal = f"mbarrier::arrive::one{restrict}{space}{multicast}"
        return f"tcgen05.commit.cta_group::{self.cta_group}.{signal}.b64"

    @property
    def intrinsic(self) -> str | None:
        # LLVM 22.1 prints its intrinsics for generic addresses with `.shared::cluster`, which isn't the same.
        if not self.space or self.sync_restrict or self.multicast not in (0, 16):
            return None
        return f"llvm.nvvm.tcgen05.commit{'.mc' if self.multicast else ''}.shared.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The mbarrier's address and the mask."""
        barrier = Registers("mbarrier", 1, "!llvm.ptr<3>" if self.space else "!llvm.ptr")
        return (barrier, Registers("mask", 1, f"i{self.multicast}")) if self.multicast else (barrier,)

    @property
    def assembly(self) -> str:
        return "[{mbarrier}], {mask}" if self.multicast else "[{mbarrier}]"


@dataclass(frozen=True)
class Wait(Instruction):
    """`tcgen05.wait`: blocks until the thread's earlier `tcgen05.ld` (or `st`) are done."""

    kind: str

    @property
    def ptx(self) -> str:
        return f"tcgen05.wait::{self.kind}.sync.aligned"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.wait.{self.kind}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """None."""
        return ()

    @property
    def assembly(self) -> str:
        return ""


@dataclass(frozen=True)
class Fence(Instruction):
    """`tcgen05.fence`: orders asynchronous tcgen05 work against a synchronisation of threads."""

    kind: str

    @property
    def ptx(self) -> str:
        return f"tcgen05.fence::{self.kind}"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.fence.{self.kind.replace('_', '.')}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """None."""
        return ()

    @property
    def assembly(self) -> str:
        return ""


def _alloc_forms() -> Iterator[tuple[Alloc, Support]]:
    for group, space in product(CTA_GROUPS, ("shared::cta", "")):
        yield Alloc(group, space), Support(ALL, (8, 6))
        yield Alloc(group, space, exclusive=True), Support(ALL, (9, 4))


def _dealloc_forms() -> Iterator[tuple[Dealloc, Support]]:
    for group in CTA_GROUPS:
        yield Dealloc(group), Support(ALL, (8, 6))
        yield Dealloc(group, exclusive=True), Support(ALL, (9, 4))


def _relinquish_forms() -> Iterator[tuple[RelinquishAllocPermit, Support]]:
    for group in CTA_GROUPS:
        yield RelinquishAllocPermit(group), Support(ALL, (8, 6))


#  multicast  sync_restrict           chips   PTX
_COMMIT = (
    (0, "", ALL, (8, 6)),
    (16, "", ALL, (8, 6)),
    (32, "", SM_107, (9, 4)),
    (0, "shared::read::mma::a", SM_107, (9, 4)),
    (16, "shared::read::mma::a", SM_107, (9, 4)),
    (32, "shared::read::mma::a", SM_107, (9, 4)),
)


def _commit_forms() -> Iterator[tuple[Commit, Support]]:
    for group, space in product(CTA_GROUPS, ("shared::cluster", "")):
        for multicast, restrict, chips, ptx in _COMMIT:
            yield Commit(group, space, multicast, restrict), Support(chips, ptx)


def _wait_forms() -> Iterator[tuple[Wait, Support]]:
    for kind in ("ld", "st"):
        yield Wait(kind), Support(ALL, (8, 6))


def _fence_forms() -> Iterator[tuple[Fence, Support]]:
    for kind in ("before_thread_sync", "after_thread_sync"):
        yield Fence(kind), Support(ALL, (8, 6))


def _mask_width(form: Commit) -> Verdict | None:
    if form.multicast in (0, 16, 32):
        return None
    return Verdict(
        "multicast-mask",
        f"has no multicast mask of {form.multicast} bits: it has 16, or 32 on sm_107a and sm_107f",
    )


def _mask_chip(form: Commit, chip: str) -> Verdict | None:
    if form.multicast != 32 or chip in SM_107:
        return None
    return Verdict(
        "multicast-mask", f"has a multicast mask of 32 bits on sm_107a and sm_107f only: {chip} has 16 bits"
    )


def parse_alloc(opcode: str, operands: Sequence[str] = ()) -> Alloc | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `tcgen05.alloc`."""
    tokens = modifiers(opcode, "tcgen05", "alloc")
    if tokens is None or not _collective(tokens) or not take(tokens, "b32"):
        return None
    form = Alloc(
        take_number(tokens, r"cta_group::(\d+)"),
        take(tokens, r"shared(?:::\w+)?"),
        bool(take(tokens, "exclusive")),
    )
    return None if tokens else form


def parse_dealloc(opcode: str, operands: Sequence[str] = ()) -> Dealloc | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `tcgen05.dealloc`."""
    tokens = modifiers(opcode, "tcgen05", "dealloc")
    if tokens is None or not _collective(tokens) or not take(tokens, "b32"):
        return None
    form = Dealloc(take_number(tokens, r"cta_group::(\d+)"), bool(take(tokens, "exclusive")))
    return None if tokens else form


def parse_relinquish(opcode: str, operands: Sequence[str] = ()) -> RelinquishAllocPermit | None:
    """The form that a PTX opcode spells, legal or not; None for another instruction."""
    tokens = modifiers(opcode, "tcgen05", "relinquish_alloc_permit")
    if tokens is None or not _collective(tokens):
        return None
    form = RelinquishAllocPermit(take_number(tokens, r"cta_group::(\d+)"))
    return None if tokens else form


def parse_commit(opcode: str, operands: Sequence[str] = ()) -> Commit | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `tcgen05.commit`."""
    tokens = modifiers(opcode, "tcgen05", "commit")
    if tokens is None or not take(tokens, "mbarrier::arrive::one") or not take(tokens, "b64"):
        return None
    group = take_number(tokens, r"cta_group::(\d+)")
    space = take(tokens, r"shared(?:::\w+)?")
    named = take_number(tokens, r"multicast::cluster::(\d+)b")
    plain = take(tokens, "multicast::cluster")
    if named and plain:
        return None
    multicast = 16 if plain else named
    form = Commit(group, space, multicast, take(tokens, "sync_restrict::(.+)"))
    return None if tokens else form


def parse_wait(opcode: str, operands: Sequence[str] = ()) -> Wait | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `tcgen05.wait`."""
    head, name, *tokens = [*opcode.split("."), "", ""]
    if head != "tcgen05" or not name.startswith("wait::") or not {"sync", "aligned", ""}.issuperset(tokens):
        return None
    return Wait(name.removeprefix("wait::")) if {"sync", "aligned"}.issubset(tokens) else None


def parse_fence(opcode: str, operands: Sequence[str] = ()) -> Fence | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `tcgen05.fence`."""
    head, separator, kind = opcode.partition("tcgen05.fence::")
    return Fence(kind) if separator and not head and "." not in kind else None


def _collective(tokens: list[str]) -> bool:
    """Whether the modifiers have `.sync` and `.aligned`, which it removes."""
    return bool(take(tokens, "sync")) and bool(take(tokens, "aligned"))


ALLOC = Tcgen05Family("tcgen05.alloc", Alloc, _alloc_forms, parse_alloc)
DEALLOC = Tcgen05Family("tcgen05.dealloc", Dealloc, _dealloc_forms, parse_dealloc)
RELINQUISH_ALLOC_PERMIT = Tcgen05Family(
    "tcgen05.relinquish_alloc_permit", RelinquishAllocPermit, _relinquish_forms, parse_relinquish
)
COMMIT = Tcgen05Family(
    "tcgen05.commit", Commit, _commit_forms, parse_commit, rules=(_mask_width,), chip_rules=(_mask_chip,)
)
WAIT = Tcgen05Family("tcgen05.wait", Wait, _wait_forms, parse_wait)
FENCE = Tcgen05Family("tcgen05.fence", Fence, _fence_forms, parse_fence)

FAMILIES = (ALLOC, DEALLOC, RELINQUISH_ALLOC_PERMIT, COMMIT, WAIT, FENCE)

NEAR: dict[str, dict[str, tuple[object, ...]]] = {
    ALLOC.name: {"cta_group": (0, 3), "space": ("shared", "shared::cluster")},
    DEALLOC.name: {"cta_group": (0, 3)},
    RELINQUISH_ALLOC_PERMIT.name: {"cta_group": (0, 3)},
    COMMIT.name: {
        "cta_group": (0, 3),
        "space": ("shared", "shared::cta"),
        "multicast": (8, 64),
        "sync_restrict": ("shared::read", "shared::read::mma::b", "shared::cta", "shared::cluster"),
    },
    WAIT.name: {"kind": ("mma", "cp")},
    FENCE.name: {"kind": ("before", "thread_sync")},
}

UNPUBLISHED = (
    Unpublished(
        COMMIT.name,
        lambda form, chip: form.sync_restrict in ("shared::cta", "shared::cluster"),
        "ptxas takes any sync_restrict of shared memory; the ISA has shared::read::mma::a alone",
    ),
)
