"""Clusters: CTAs that run at the same time and read each other's shared memory."""

from weft.language import trace
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar
from weft.passes.builders import thread_ids
from weft.passes.kernels.cluster import meet_cluster


def cluster_rank() -> Scalar:
    """The number of the CTA in its cluster: x varies fastest, then y and z."""
    _check("w.cluster_rank")
    return Scalar(thread_ids.cluster_rank())


def cluster_barrier() -> None:
    """All threads of all CTAs of the cluster wait for each other, so each role must get there equally often.
    What they wrote before is visible to all afterwards.

    A CTA's shared memory ends with it: before the end, let all meet once more after the last read of a
    peer's.
    """
    _check("w.cluster_barrier")
    if trace.current().one_thread:
        raise mistake("a barrier waits for all threads, so it can't be in w.one_thread()")
    meet_cluster()


def _check(name: str) -> None:
    if trace.current().cluster is None:
        raise mistake(f"{name} is for kernels with clusters: write @w.kernel(cluster=2, …)")
