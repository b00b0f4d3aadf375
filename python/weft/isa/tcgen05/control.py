"""`tcgen05.alloc`, `dealloc`, `relinquish_alloc_permit`, `commit`, `wait` and `fence`: tensor memory's
allocation and the order of asynchronous work (PTX ISA, "Tensor Memory Allocation and Management
Instructions" and the sections on `tcgen05.commit`, `tcgen05.wait` and `tcgen05.fence`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from weft.isa.family import Form, Registers, Support, Verdict
from weft.isa.tcgen05.family import (
    ALIGNED,
    ALL,
    B32,
    CTA_GROUP,
    CTA_GROUPS,
    SM_107,
    SYNC,
    TENSOR_ADDRESS,
    Tcgen05Family,
    template,
)
from weft.isa.template import Field, Flag, Template, Word
from weft.isa.unpublished import Unpublished

COLUMNS = (32, 64, 128, 256, 512)
"""The numbers of columns that a CTA can allocate."""
# `.exclusive`: any multiple of 32. Columns beyond 512 exist on sm_107 alone, but ptxas takes them anywhere.
_EXCLUSIVE_COLUMNS = tuple(range(32, 577, 32))


def _columns(exclusive: bool) -> Registers:
    """A register or a constant; `values` are the legal constants."""
    return Registers("columns", 1, "i32", values=_EXCLUSIVE_COLUMNS if exclusive else COLUMNS)


_KIND = r"[\w:]*"
_EXCLUSIVE = Flag("exclusive")
_SPACE = Field("space", ("{}", r"shared(?:::\w+)?"), default="")
_SYNC_RESTRICT = Field("sync_restrict", ("sync_restrict::{}", "[^.]+"), default="")
# 16 bits were all there was before PTX 9.4, and need no name since.
_MULTICAST = Field(
    "multicast",
    ("multicast::cluster", 16),
    ("multicast::cluster::{}b", r"[1-9][0-9]*"),
    default=0,
    number=True,
)


@dataclass(frozen=True)
class Alloc(Form):
    """One form of `tcgen05.alloc`: one warp allocates columns and writes their address to shared memory,
    which is given by a generic address where `space` is empty.
    """

    cta_group: int
    space: str = ""
    exclusive: bool = False

    templates = (template("alloc", _EXCLUSIVE, CTA_GROUP, SYNC, ALIGNED, _SPACE, B32),)
    assembly = "[{address}], {columns}"

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


@dataclass(frozen=True)
class Dealloc(Form):
    """One form of `tcgen05.dealloc`: one warp frees the columns of one `tcgen05.alloc`."""

    cta_group: int
    exclusive: bool = False

    templates = (template("dealloc", _EXCLUSIVE, CTA_GROUP, SYNC, ALIGNED, B32),)
    assembly = "{address}, {columns}"

    @property
    def intrinsic(self) -> str | None:
        return None if self.exclusive else f"llvm.nvvm.tcgen05.dealloc.cg{self.cta_group}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The allocation's address in tensor memory, and how many columns."""
        return Registers("address", 1, TENSOR_ADDRESS), _columns(self.exclusive)


@dataclass(frozen=True)
class RelinquishAllocPermit(Form):
    """`tcgen05.relinquish_alloc_permit`: the CTA gives up its right to allocate tensor memory."""

    cta_group: int

    templates = (template("relinquish_alloc_permit", CTA_GROUP, SYNC, ALIGNED),)

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.relinq.alloc.permit.cg{self.cta_group}"


@dataclass(frozen=True)
class Commit(Form):
    """One form of `tcgen05.commit`: signals an mbarrier when the thread's earlier tcgen05 work is done.

    `multicast` is the width in bits of the mask of CTAs whose mbarriers are signaled; 0 signals only the
    mbarrier at the address. An empty `space` means a generic address. `sync_restrict` limits the work that
    counts.
    """

    cta_group: int
    space: str = ""
    multicast: int = 0
    sync_restrict: str = ""

    templates = (
        template(
            "commit",
            CTA_GROUP,
            Word("mbarrier::arrive::one"),
            _SYNC_RESTRICT,
            _SPACE,
            _MULTICAST,
            Word("b64"),
        ),
    )

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
class Wait(Form):
    """`tcgen05.wait`: blocks until the thread's earlier `tcgen05.ld` (or `st`) are done."""

    kind: str

    templates = (Template("tcgen05", SYNC, ALIGNED, lead=Field("kind", ("wait::{}", _KIND))),)

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.wait.{self.kind}"


@dataclass(frozen=True)
class Fence(Form):
    """`tcgen05.fence`: orders asynchronous tcgen05 work before or after a synchronization of threads."""

    kind: str

    templates = (Template("tcgen05", lead=Field("kind", ("fence::{}", _KIND))),)

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.tcgen05.fence.{self.kind.replace('_', '.')}"


def _alloc_forms() -> Iterator[tuple[Alloc, Support]]:
    for group, space in product(CTA_GROUPS, ("shared::cta", "")):
        yield Alloc(group, space), Support(ALL, (8, 6))
        yield Alloc(group, space, exclusive=True), Support(ALL, (9, 4))


def _dealloc_forms() -> Iterator[tuple[Dealloc, Support]]:
    for group in CTA_GROUPS:
        yield Dealloc(group), Support(ALL, (8, 6))
        yield Dealloc(group, exclusive=True), Support(ALL, (9, 4))


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


def _mask_width(form: Commit) -> Verdict | None:
    if form.multicast in (0, 16, 32):
        return None
    return Verdict(
        "multicast-mask",
        f"the multicast mask must have 16 bits, or 32 on sm_107a and sm_107f, got {form.multicast}",
    )


def _mask_chip(form: Commit, chip: str) -> Verdict | None:
    if form.multicast != 32 or chip in SM_107:
        return None
    return Verdict(
        "multicast-mask", f"a multicast mask of 32 bits is legal on sm_107a and sm_107f only, got {chip}"
    )


ALLOC = Tcgen05Family("tcgen05.alloc", Alloc, _alloc_forms)
DEALLOC = Tcgen05Family("tcgen05.dealloc", Dealloc, _dealloc_forms)
RELINQUISH_ALLOC_PERMIT = Tcgen05Family(
    "tcgen05.relinquish_alloc_permit",
    RelinquishAllocPermit,
    lambda: ((RelinquishAllocPermit(group), Support(ALL, (8, 6))) for group in CTA_GROUPS),
)
COMMIT = Tcgen05Family(
    "tcgen05.commit", Commit, _commit_forms, rules=(_mask_width,), chip_rules=(_mask_chip,)
)
_ORDERING = Support(ALL, (8, 6))
WAIT = Tcgen05Family("tcgen05.wait", Wait, lambda: ((Wait(kind), _ORDERING) for kind in ("ld", "st")))
FENCE = Tcgen05Family(
    "tcgen05.fence",
    Fence,
    lambda: ((Fence(f"{when}_thread_sync"), _ORDERING) for when in ("before", "after")),
)

FAMILIES = (ALLOC, DEALLOC, RELINQUISH_ALLOC_PERMIT, COMMIT, WAIT, FENCE)


def _any_restriction(form: Commit, chip: str) -> bool:
    support = COMMIT.table.get(replace(form, sync_restrict=""))
    return (
        form.sync_restrict in ("shared::cta", "shared::cluster")
        and support is not None
        and chip in support.chips
    )


UNPUBLISHED = (
    Unpublished(
        COMMIT.name,
        _any_restriction,
        "ptxas 13.5 accepts any sync_restrict of shared memory; the ISA has shared::read::mma::a only",
    ),
)
