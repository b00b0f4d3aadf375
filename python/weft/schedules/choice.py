"""Which schedule a product of known sizes gets: one that was tuned, where there is one, else the model's."""

from functools import lru_cache
from pathlib import Path

from weft.dialects.schedule import AnySchedule, Types
from weft.schedules import database, heuristic
from weft.schedules.database import Product


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> AnySchedule:
    """The schedule for an M x N x K product, or for a batch of them. Raises WeftError where none is legal."""
    return _chosen(Product(m, n, k, types, chip), members, database.sources(chip))


@lru_cache(maxsize=4096)
def _chosen(product: Product, members: int, asked: tuple[Path, ...]) -> AnySchedule:
    """Products are tuned alone; the model says what a batch is best multiplied by."""
    found = database.tuned(product, asked) if members == 1 else None
    return found or heuristic.choose(
        product.m, product.n, product.k, product.types, product.chip, members=members
    )
