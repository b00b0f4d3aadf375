"""Rings in tensor memory: their stages pass tiles between products that one thread starts and warpgroups."""

from typing import Any, NoReturn

from weft.dialects import tile
from weft.errors import Diagnostic, WeftError
from weft.isa.chips import WARPS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.values.rings import Ring
from weft.language.values.stages import Slot
from weft.language.values.tensor_memory import TensorMemory, allocated
from weft.mlir import ir


class TensorRing(Ring):
    """Stages of tiles in tensor memory, with an mbarrier each that they are full, and that they are empty.

    - One thread writes a stage by products, `with ring.write() as stage: w.gemm(a, b, stage.s)`, in
      `w.one_thread()`. It is full when all products are complete that the thread has started by the end of
      the block (PTX ISA, "tcgen05.commit"). Warpgroups take it.
    - Or warpgroups write it, `w.store(t, stage.p)`, and one thread takes it for products. It is empty when
      these are complete.

    A ring over another one has its stages where those of the other begin: warpgroups change a tile in place,
    from the sums of a product to the left operand of the next. The thread that takes it, and releases both,
    then is the one that writes the other ring, since its products read and write tensor memory in order.

    Without tiles, a ring only signals that products are complete.
    """

    _thread: tuple[trace.Role | None, int] | None = None  # the role and warp of the thread that writes stages
    _above: "TensorRing | None" = None  # the ring in whose memory this one is

    def _allocated(self, below: dict[str, ir.Value | None]) -> dict[str, ir.Value]:
        if isinstance(self.over, TensorRing):
            self.over._above = self
        return {name: allocated(*kind, self.stages, below[name]) for name, kind in self.kinds.items()}

    def _agents(self) -> dict[str, Any]:
        return {"filled_by": "mma", "emptied_by": "warps", "tensor_memory": True}

    def _copied_by(self, done: str) -> NoReturn:
        raise mistake(
            f"a ring in tensor memory can't be {done}, since TMA copies to shared memory only: write it, "
            "'with ring.write() as stage:'"
        )

    def _written_by(self, role: trace.Role, own: bool) -> None:
        current = trace.current()
        if not current.one_thread:
            super()._written_by(role, own)
            return
        thread = role, current.warp
        if own or self.over is not None or (role.warpgroups > 1 and current.alike):
            raise mistake(
                f"a stage of ring '{self.name}' must be written by one thread for all, in a role of one "
                "warpgroup and in memory of its own: leave own and over out, or write it by warpgroups"
            )
        if self._writer is not None and self._thread != thread:
            raise mistake(
                f"ring '{self.name}' is written elsewhere already, by what has the position in it: make "
                "another one for what is written here"
            )
        self._writer, self._thread = role, thread

    def read_by_lanes(self) -> None:
        pass  # `check` decides who empties stages

    def read_by_product(self) -> None:
        if self.over is None:
            self.drainer = self._taking

    def check(self) -> None:
        taker = self._above or self
        if taker.taken_alone and self._thread not in (None, taker._taking):
            message = f"ring '{self.name}' is written by one thread, and a ring over it is taken by another"
            raise WeftError(Diagnostic(f"{message}: do both in the same one", taker._taken_at))
        if taker is self and self.taken_alone == (self._thread is not None) and self._taken_at is not None:
            who = "the thread whose products write them" if self.taken_alone else "warpgroups, as written"
            message = (
                f"stages of ring '{self.name}' are taken by {who}: tensor memory passes tiles from products "
                "to warpgroups, or from these to products; use a ring in shared memory between warpgroups"
            )
            raise WeftError(Diagnostic(message, self._taken_at))
        emptier, count = "warps", (1 if self._takes_own else self.takers) * WARPS
        if taker.taken_alone:  # products of one thread are ordered without waiting for them
            emptier, count = "threads" if self._thread is not None else "mma", 1
        self._signalled_by(emptier, "emptied_by", "consumers", count)
        self._set_pair()
        super().check()

    def buffer(self, name: str, stage: ir.Value, slot: Slot | None = None) -> TensorMemory:  # type: ignore[override]
        return TensorMemory(tile.stage(self._buffers[name], stage), self, slot)
