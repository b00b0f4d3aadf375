"""Builds modules from Python, on MLIR's contexts and insertion points."""

import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from weft import mlir
from weft.construction import blocks, launch_extents, module_arguments
from weft.dialects import context
from weft.dialects.launch_contract import GRID, WRITES
from weft.display.html import Html
from weft.errors import WeftError
from weft.ir.mlir_text import with_aliases
from weft.mlir import func, gpu, ir


class Module:
    """A module under construction. In a `with` block, the module, its context and its insertion point are the
    current ones.

    `mlir` is the underlying `ir.Module`. Each operation gets the caller's line as its source location. A
    block belongs to the thread and task that entered it. If an `await` in the block lets another task enter a
    module, a WeftError refuses operations that would be built in the wrong module. If a `yield` lets the same
    task enter one that is still open at the end of the block, a WeftError refuses the block. With
    `located` False, operations have no source locations, and aren't refused, and the end of the block doesn't
    verify them again: this is for Weft's own code.
    """

    def __init__(self, *, located: bool = True) -> None:
        self._parts, self.located = _Parts(), located
        _drop_unused()
        self._entered: list[blocks.Block] = []
        self._functions: list[blocks.Block] = []
        self._failure: str | None = None
        weakref.finalize(self, _keep, self._parts).atexit = False

    @property
    def context(self) -> ir.Context:
        """The `ir.Context` of the module's types, attributes and operations."""
        return self._parts.context

    @property
    def mlir(self) -> ir.Module:
        """The `ir.Module`."""
        return self._parts.mlir

    def __enter__(self) -> "Module":
        if self._entered:
            self._check_innermost()
        point = ir.InsertionPoint(self.mlir.body)
        self._entered.append(blocks.enter(self._parts.unknown, point, located=self.located))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block = self._entered.pop()
        try:
            if kind is None:
                blocks.check_end(block)
            else:
                self._failure = kind.__name__
        finally:
            blocks.leave(block)
        if kind is None and self.located:
            with mlir.located():
                self.mlir.operation.verify()

    def __str__(self) -> str:
        return with_aliases(str(self.mlir))

    def _repr_html_(self) -> str:
        page = Html("module")
        page.code(str(self))
        return page.text()

    def finished(self) -> ir.Module:
        """The `ir.Module`. Raises WeftError while a function is constructed, and after a failed block."""
        if self._functions:
            raise WeftError(
                "module must be finished, got one with an open function: leave the function's 'with' block"
            )
        if self._failure is not None:
            raise WeftError(
                f"module must be finished, got one whose block ended with {self._failure}: build it again"
            )
        return self.mlir

    @contextmanager
    def func(self, name: str, arguments: Sequence[ir.Type]) -> Iterator[Sequence[ir.Value]]:
        """A `func.func` with these argument types (see `memref`). Yields its arguments; adds the return."""
        self._check_outside()
        function = func.FuncOp(module_arguments.symbol(name), (module_arguments.types(arguments), []))
        entry = function.add_entry_block()
        with self._inside(entry):
            yield list(entry.arguments)
        func.ReturnOp([], loc=function.location, ip=ir.InsertionPoint(entry))

    @contextmanager
    def kernel(
        self,
        name: str,
        arguments: Sequence[ir.Type],
        *,
        block: Sequence[int],
        grid: Sequence[int] | None = None,
        chip: str | None = None,
        cluster: Sequence[int] | None = None,
        writes: Sequence[int] | None = None,
    ) -> Iterator[Sequence[ir.Value]]:
        """A `gpu.func` kernel in a `gpu.module` of its own. Yields its arguments; adds the return.

        `block` is the number of threads in x, y and z; `grid` is the number of CTAs. Without `grid`, each
        launch specifies it. `chip` is the target, such as "sm_90a". `cluster` is the number of CTAs in a
        cluster; by default, there are no clusters. `writes` are the numbers of the arguments that the kernel
        writes; by default, all.
        """
        self._check_outside()
        name, types = module_arguments.symbol(name), module_arguments.types(arguments)
        threads = launch_extents.block(block)
        ctas = None if grid is None else launch_extents.grid(grid)
        together = None if cluster is None else launch_extents.cluster(cluster, ctas)
        written = None if writes is None else module_arguments.writes(writes, len(types))
        target = None if chip is None else module_arguments.target(chip)
        function = mlir.kernel(name, types)
        if target is not None:
            function.operation.parent.attributes["targets"] = ir.ArrayAttr.get([target])
        function.operation.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(threads)
        if together is not None:
            function.operation.attributes["known_cluster_size"] = ir.DenseI32ArrayAttr.get(together)
        if written is not None:
            WRITES.set(function, ir.DenseI32ArrayAttr.get(written))
        if ctas is not None:
            ranks = sum(a.rank for a in types if isinstance(a, ir.MemRefType))
            constants = [ir.AffineExpr.get_constant(n) for n in ctas]
            GRID.set(function, ir.AffineMapAttr.get(ir.AffineMap.get(ranks, 0, constants)))
        entry = function.body.blocks[0]
        with self._inside(entry):
            yield list(entry.arguments)
        gpu.return_([], loc=function.location, ip=ir.InsertionPoint(entry))

    @contextmanager
    def _inside(self, body: ir.Block) -> Iterator[None]:
        """Operations of the block are built in a function's body."""
        entered = blocks.enter(self._parts.unknown, ir.InsertionPoint(body), located=self.located)
        self._functions.append(entered)
        try:
            yield
            blocks.check_end(entered)
        except BaseException as error:
            self._failure = type(error).__name__
            raise
        finally:
            self._functions.remove(entered)
            blocks.leave(entered)

    def _check_outside(self) -> None:
        """Raises WeftError where no function can begin."""
        self._check_innermost()
        if self._functions:
            raise WeftError("a function or kernel can't be inside another one: leave the 'with' block before")

    def _check_innermost(self) -> None:
        """Raises WeftError if this task would build in another module."""
        blocks.check()
        current = blocks.current()
        if current is None or current.unknown is not self._parts.unknown:
            raise WeftError(
                "module must be the innermost one that this thread and task has entered: "
                "write 'with module:' around the code that builds in it"
            )


class _Parts:
    """A module and its context. They live as long as anything refers to their operations.

    In the bindings, an operation keeps its context alive, but not its module.
    """

    def __init__(self) -> None:
        self.context = context()
        self.unknown = ir.Location.unknown(self.context)
        self.mlir = ir.Module.create(self.unknown)
        self._own = self._references()

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self.context), sys.getrefcount(self.mlir)

    def in_use(self) -> bool:
        """Whether anything else refers to the module or to its context."""
        return any(now > own for now, own in zip(self._references(), self._own, strict=True))


_kept: deque[_Parts] = deque()


def _keep(parts: _Parts) -> None:
    """Keeps the parts of a deleted module until nothing refers to them."""
    _kept.append(parts)
    del parts
    _drop_unused()


def _drop_unused() -> None:
    """Drops the kept parts to which nothing refers."""
    for _ in range(len(_kept)):
        try:
            each = _kept.popleft()
        except IndexError:  # another thread took the last one
            return
        if each.in_use():
            _kept.append(each)


def memref(
    shape: Sequence[int | str] | str, element: str, strides: Sequence[int | str] | None = None
) -> ir.Type:
    """A matrix type in the current context: `memref((16, "?"), "bf16")`, or `memref("16x?", "bf16")`.

    Strides are in elements; without them, the matrix is contiguous. Raises WeftError for an invalid type.
    """
    if ir.Context.current is None:
        raise WeftError("weft.memref needs a current module: write 'with weft.Module() as module:' around it")
    blocks.check()
    return module_arguments.memref(shape, element, strides)
