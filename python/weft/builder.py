"""Building modules from Python: MLIR's own context and insertion points underneath."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from weft import mlir
from weft.dialects import context
from weft.errors import WeftError
from weft.mlir import func, gpu, ir


class Module:
    """A module under construction; `with` makes it, its context and its insertion point the current ones.

    `mlir` is the underlying `ir.Module`. Operations that are built in it remember the line of the caller.
    """

    def __init__(self) -> None:
        self.context = context()
        with self.context, ir.Location.unknown():
            self.mlir = ir.Module.create()
        self._entered = ExitStack()

    def __enter__(self) -> "Module":
        self._entered.enter_context(self.context)
        self._entered.enter_context(mlir.caller_locations())
        self._entered.enter_context(ir.Location.unknown())
        self._entered.enter_context(ir.InsertionPoint(self.mlir.body))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.close()
        if kind is None:
            with mlir.located():
                self.mlir.operation.verify()

    def __str__(self) -> str:
        return str(self.mlir)

    @contextmanager
    def func(self, name: str, arguments: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """A `func.func` of these argument types (see `memref`); yields its arguments, ends with a return."""
        made = func.FuncOp(name, (list(arguments), []))
        with ir.InsertionPoint(made.add_entry_block()):
            yield list(made.arguments)
            func.ReturnOp([])

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
        holder = gpu.GPUModuleOp(name)
        if chip:
            target = ir.Attribute.parse(f'#nvvm.target<chip = "{chip}">')
            holder.operation.attributes["targets"] = ir.ArrayAttr.get([target])
        with ir.InsertionPoint(holder.bodyRegion.blocks.append()):
            made = mlir.kernel(name, arguments)
        made.operation.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(list(block))
        if grid is not None:
            ranks = sum(a.rank for a in arguments if isinstance(a, ir.MemRefType))
            constants = [ir.AffineExpr.get_constant(n) for n in grid]
            made.operation.attributes["weft.grid"] = ir.AffineMapAttr.get(
                ir.AffineMap.get(ranks, 0, constants)
            )
        entry = made.body.blocks[0]
        with ir.InsertionPoint(entry):
            yield list(entry.arguments)
            gpu.return_([])


def memref(shape: Sequence[int | str] | str, element: str, strides: Sequence[int | str] | None = None) -> Any:
    """A matrix type in the current context: `memref((16, "?"), "bf16")`, or `memref("16x?", "bf16")`.

    Strides count elements; without them rows follow each other. Raises WeftError for what is no type.
    """
    extents = shape.split("x") if isinstance(shape, str) else [str(s) for s in shape]
    layout = f", strided<[{', '.join(map(str, strides))}]>" if strides else ""
    if ir.Context.current is None:
        raise WeftError("weft.memref needs a current module: write 'with weft.Module() as module:' around it")
    return mlir.parse_type(f"memref<{'x'.join(extents)}x{element}{layout}>", "<memref>")
