"""The grid, the block and the workspaces of a launch, which follow from the sizes of its arrays."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.compiler.launch_record import Launch, MemrefArgument
from weft.construction import launch_extents
from weft.errors import WeftError, about
from weft.launch import runtime
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import Space

_EMULATED_MULTIPROCESSORS = 4  # few, so that persistent kernels compute several tiles at small sizes
_MOST_EMULATED = 16  # where each still computes several tiles: the emulator's cores share them


def dimensions(
    launch: Launch,
    views: Sequence[object],
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    multiprocessors: int | None = None,
) -> tuple[runtime.Dim, runtime.Dim]:
    """The grid and block of a launch with these arguments on a GPU with that many multiprocessors, or in
    the emulator (None). Raises WeftError for sizes that the kernel can't take.
    """
    sizes = _sizes(launch, views)
    if launch.requires is not None and any(launch.requires(sizes)):
        _check_clusters(launch, sizes)
        shapes = ", ".join(str(v.shape) for v in views if isinstance(v, ArrayView))
        raise WeftError(f"kernel {launch.name}: the shapes of its arguments don't fit together: {shapes}")
    if grid is None:
        if launch.grid is None:
            raise WeftError(
                f"kernel {launch.name} doesn't set its grid: pass grid=(x, y, z), or --grid X,Y,Z"
            )
        grid = launch.grid(sizes)
        if (each := launch.persistent) is not None:
            tiles, ctas = math.prod(grid), math.prod(launch.cluster)
            if multiprocessors is None:  # of the emulator
                multiprocessors = _EMULATED_MULTIPROCESSORS
                # Their number selects the sums of kernels with a workspace, so it is fixed for these.
                if not launch.workspaces:
                    several = tiles // _EMULATED_MULTIPROCESSORS
                    multiprocessors = max(multiprocessors, min(several, _MOST_EMULATED))
            most = max(each * multiprocessors // ctas, 1) * ctas
            grid = (min(tiles, most) if each else tiles, 1, 1)
    extents = _extents(launch, launch_extents.grid, grid)
    requested = launch.block if block is None else block
    if requested is None:
        raise WeftError(f"kernel {launch.name} doesn't set its block: pass block=(x, y, z), or --block X,Y,Z")
    threads = _extents(launch, launch_extents.block, requested)
    if launch.block not in (None, threads):
        raise WeftError(f"kernel {launch.name}: block must be {launch.block} as compiled, got {threads}")
    return extents, threads


def _check_clusters(launch: Launch, sizes: list[int]) -> None:
    """Raises WeftError for a grid, of CTAs or of tiles, that clusters don't divide."""
    grid = launch.grid(sizes) if launch.grid is not None else ()
    for count, ctas in zip(grid, launch.cluster, strict=False):
        if count % ctas:
            raise WeftError(
                f"kernel {launch.name}: grid must be a multiple of cluster {launch.cluster} in each "
                f"dimension, got {tuple(grid)}: round it up, as by w.ceil_div(x.rows, {ctas} * 64) * {ctas} "
                "for tiles of 64 rows"
            )


def _sizes(launch: Launch, views: Sequence[Any]) -> list[int]:
    """The sizes of all memref arguments."""
    pairs = zip(views, launch.arguments, strict=True)
    return [size for view, want in pairs if isinstance(want, MemrefArgument) for size in view.shape]


def workspaces_of(launch: Launch, views: Sequence[object], grid: runtime.Dim) -> list[Space]:
    """The workspaces of a launch with this grid and these arguments."""
    of_kernel, count = launch.workspaces, math.prod(grid)
    if not of_kernel:
        return []
    if not of_kernel[0].of_ctas:
        assert launch.grid is not None
        count = math.prod(launch.grid(_sizes(launch, views)))
    return [Space((count * w.rows, *w.row_shape), w.element_bytes) for w in of_kernel]


def _extents(launch: Launch, check: Callable[[Any], list[int]], extents: object) -> runtime.Dim:
    """A grid or block that `check`, of `module_arguments`, accepts. Raises WeftError for another."""
    with about(f"kernel {launch.name}"):
        x, y, z = check(extents)
    return x, y, z
