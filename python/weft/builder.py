"""Building modules from Python: MLIR's own context and insertion points underneath."""

import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from weft import construction, mlir
from weft import module_arguments as given
from weft.dialects import context
from weft.dialects.launch_contract import GRID
from weft.errors import WeftError
from weft.mlir import func, gpu, ir


class Module:
    """A module under construction; `with` makes it, its context and its insertion point the current ones.

    `mlir` is the underlying `ir.Module`. Operations that are built in it remember the line of the caller. The
    block belongs to the thread and task that entered it: where an `await` or `yield` in it lets another one
    enter its own, operations that would land in the wrong one are refused with a WeftError.
    """

    def __init__(self) -> None:
        _look_after()
        self._parts = _Parts()
        self._entered: list[construction.Block] = []
        self._functions: list[construction.Block] = []
        self._failure: str | None = None
        weakref.finalize(self, _let_go, self._parts).atexit = False

    @property
    def context(self) -> Any:
        """The `ir.Context` of the module's types, attributes and operations."""
        return self._parts.context

    @property
    def mlir(self) -> Any:
        """The `ir.Module`."""
        return self._parts.mlir

    def __enter__(self) -> "Module":
        if self._entered:
            self._check_innermost()
        point = ir.InsertionPoint(self.mlir.body)
        self._entered.append(construction.enter(self._parts.unknown, point))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        construction.leave(self._entered.pop())
        if kind is None:
            with mlir.located():
                self.mlir.operation.verify()
        else:
            self._failure = kind.__name__

    def __str__(self) -> str:
        return str(self.mlir)

    def finished(self) -> Any:
        """The `ir.Module`. Raises WeftError where a function of it has no end yet, or never will."""
        if self._functions:
            raise WeftError(
                "expected a finished module, found a function under construction: leave its block"
            )
        if self._failure is not None:
            found = f"expected a finished module, found one whose block ended with {self._failure}"
            raise WeftError(f"{found}: build it anew")
        return self.mlir

    @contextmanager
    def func(self, name: str, arguments: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """A `func.func` of these argument types (see `memref`); yields its arguments, ends with a return."""
        self._check_innermost()
        made = func.FuncOp(given.symbol(name), (given.types(arguments), []))
        entry = made.add_entry_block()
        with self._inside(entry):
            yield list(entry.arguments)
        func.ReturnOp([], loc=made.location, ip=ir.InsertionPoint(entry))

    @contextmanager
    def kernel(
        self,
        name: str,
        arguments: Sequence[Any],
        *,
        block: Sequence[int],
        grid: Sequence[int] | None = None,
        chip: str | None = None,
    ) -> Iterator[Sequence[Any]]:
        """A `gpu.func` kernel in a `gpu.module` of its own; yields its arguments, ends with a return.

        `block` is the number of threads on x, y and z; `grid` the same for CTAs, or else each launch says it.
        """
        self._check_innermost()
        name, kinds = given.symbol(name), given.types(arguments)
        threads, ctas = given.block(block), None if grid is None else given.grid(grid)
        target = None if chip is None else given.target(chip)
        holder = gpu.GPUModuleOp(name)
        if target is not None:
            holder.operation.attributes["targets"] = ir.ArrayAttr.get([target])
        with ir.InsertionPoint(holder.bodyRegion.blocks.append()):
            made = mlir.kernel(name, kinds)
        made.operation.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(threads)
        if ctas is not None:
            ranks = sum(a.rank for a in kinds if isinstance(a, ir.MemRefType))
            constants = [ir.AffineExpr.get_constant(n) for n in ctas]
            GRID.set(made, ir.AffineMapAttr.get(ir.AffineMap.get(ranks, 0, constants)))
        entry = made.body.blocks[0]
        with self._inside(entry):
            yield list(entry.arguments)
        gpu.return_([], loc=made.location, ip=ir.InsertionPoint(entry))

    @contextmanager
    def _inside(self, body: Any) -> Iterator[None]:
        """Operations of the block go to a function's body."""
        entered = construction.enter(self._parts.unknown, ir.InsertionPoint(body))
        self._functions.append(entered)
        try:
            yield
        except BaseException as error:
            self._failure = type(error).__name__
            raise
        finally:
            self._functions.remove(entered)
            construction.leave(entered)

    def _check_innermost(self) -> None:
        """Raises WeftError where this task would build in something other than this module."""
        construction.check()
        current = construction.current()
        if current is None or current.unknown is not self._parts.unknown:
            raise WeftError(
                "expected the module to be the innermost that this thread and task has entered: "
                "write 'with module:' around what is built in it"
            )


class _Parts:
    """A module and its context, which live on while anything refers to their operations.

    To the bindings an operation keeps its context alive, but not the module around it.
    """

    def __init__(self) -> None:
        self.context = context()
        self.unknown = ir.Location.unknown(self.context)
        self.mlir = ir.Module.create(self.unknown)
        self._own = self._references()

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self.context), sys.getrefcount(self.mlir)

    def in_use(self) -> bool:
        """Whether something else refers to the module or to anything of its context."""
        return any(now > own for now, own in zip(self._references(), self._own, strict=True))


_outlived: deque[_Parts] = deque()


def _let_go(parts: _Parts) -> None:
    """Keeps the parts of a module that is gone until nothing refers to them."""
    _outlived.append(parts)
    del parts
    _look_after()


def _look_after() -> None:
    """Lets go of what nothing refers to any more."""
    for _ in range(len(_outlived)):
        try:
            each = _outlived.popleft()
        except IndexError:  # another thread looks after them as well
            return
        if each.in_use():
            _outlived.append(each)


def memref(shape: Sequence[int | str] | str, element: str, strides: Sequence[int | str] | None = None) -> Any:
    """A matrix type in the current context: `memref((16, "?"), "bf16")`, or `memref("16x?", "bf16")`.

    Strides count elements; without them rows follow each other. Raises WeftError for what is no type.
    """
    if ir.Context.current is None:
        raise WeftError("weft.memref needs a current module: write 'with weft.Module() as module:' around it")
    construction.check()
    return given.memref(shape, element, strides)
