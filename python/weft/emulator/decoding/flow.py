"""The order in which the scheduler prefers blocks, so that threads that diverged meet again.

A block's rank is its position in a topological order of the flow graph in which every loop is contiguous.
Threads at a lower rank run first. So the first thread to reach a block waits there for all threads that may
still reach it, and a thread that leaves a loop waits for the loop: threads reconverge at the earliest
possible point, in irreducible graphs too. The order is only a preference. Every thread has its own program
counter, so no order can make a program wrong, and time slices (see `machine`) keep a loop that waits for
other threads from starving them.
"""

from collections.abc import Sequence


def ranks(successors: Sequence[Sequence[int]], entry: int) -> list[int]:
    """The rank of every node; unreachable nodes come last."""
    order: list[int] = []
    # The entry may be in a loop, which must stay contiguous: control comes from a node before it.
    start = len(successors)
    successors = [*successors, [entry]]
    # Each item is a set of nodes that is still to be ordered, and the node at which control enters it.
    work: list[tuple[set[int], int]] = [(_reachable(successors, start), start)]
    while work:
        nodes, head = work.pop()
        if len(nodes) == 1:
            order += nodes
            continue
        # Without the edges back to the head, the loop's body splits into smaller components.
        inner = {n: [s for s in successors[n] if s in nodes and s != head] for n in nodes}
        parts = _components(inner, head)
        heads = _heads(parts, nodes, successors, head)
        work += [(set(part), first) for part, first in zip(parts[::-1], heads[::-1], strict=True)]
    seen = set(order)
    order += [n for n in range(start) if n not in seen]
    rank = [0] * start
    for position, node in enumerate(order[1:]):
        rank[node] = position
    return rank


def _heads(
    parts: Sequence[Sequence[int]], nodes: set[int], successors: Sequence[Sequence[int]], head: int
) -> list[int]:
    """The entry of each component: its first node, in text order, that another component leads to."""
    owner = {node: i for i, part in enumerate(parts) for node in part}
    heads: dict[int, int] = {}
    for node in nodes:
        for after in successors[node]:
            part = owner.get(after)
            if part is not None and part != owner[node]:
                heads[part] = min(after, heads.get(part, after))
    heads[owner[head]] = head
    return [heads.get(i, min(part)) for i, part in enumerate(parts)]


def _reachable(successors: Sequence[Sequence[int]], entry: int) -> set[int]:
    seen, stack = {entry}, [entry]
    while stack:
        for after in successors[stack.pop()]:
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return seen


def _components(graph: dict[int, list[int]], first: int) -> list[list[int]]:
    """Strongly connected components in topological order (Tarjan's algorithm, with its own stack)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    open_at: dict[int, int] = {}
    components: list[list[int]] = []
    for root in [first, *sorted(graph)]:
        if root in number:
            continue
        calls = [(root, 0)]
        while calls:
            node, at = calls.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                open_at[node] = len(open_)
                open_.append(node)
            for i in range(at, len(graph[node])):
                after = graph[node][i]
                if after not in number:
                    calls += [(node, i + 1), (after, 0)]
                    break
                if after in open_at:
                    low[node] = min(low[node], number[after])
            else:
                if low[node] == number[node]:
                    cut = open_at[node]
                    components.append(open_[cut:])
                    for closed in open_[cut:]:
                        del open_at[closed]
                    del open_[cut:]
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
    return components[::-1]
