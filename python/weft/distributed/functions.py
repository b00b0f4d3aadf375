"""The products over several GPUs, by the names of their functions."""

from weft.distributed import gather, reduce, scatter

FUNCTIONS = {each.name: each for each in (gather.FUNCTION, scatter.FUNCTION, reduce.FUNCTION)}
