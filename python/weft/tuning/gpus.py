"""Searches on several GPUs: a process for each, which share the products and one database."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context
from typing import Any

from weft.errors import WeftError

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Found:
    """What a process has found for a product, by its number: the database's line, if any, and remarks."""

    number: int
    line: str | None
    remarks: list[str]


Send = Callable[[Found], None]
Work = Callable[[int, Send], None]
"""What a process does, by its number: it sends what it finds."""


def names(count: int, available: int) -> list[str]:
    """What `CUDA_VISIBLE_DEVICES` is for each process. Raises WeftError if there are fewer GPUs."""
    given = os.environ.get(_VISIBLE)
    known = given.split(",") if given else [str(number) for number in range(available)]
    known = known[:available]
    if count > len(known):
        raise WeftError(f"--gpus must be at most {len(known)}, the number of GPUs, got {count}")
    return known[:count]


def order(process: int, processes: int, products: int, *, again: bool) -> list[int]:
    """The products that a process searches: its own share first, then those of the others that are left. With
    `again`, its own share alone, since it would repeat the others.
    """
    own = range(process, products, processes)
    others = [] if again else [number for number in range(products) if number % processes != process]
    return [*own, *others]


def search(visible: list[str], work: Work) -> Iterator[Found | str]:
    """What processes find, one for each GPU, as it comes; a text for a failure. `work` must be picklable."""
    context = get_context("spawn")
    running: dict[Any, tuple[Any, str]] = {}
    for number, name in enumerate(visible):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(work, number, name, sender))
        process.start()
        sender.close()  # so that the receiver ends with the process
        running[receiver] = process, name
    try:
        while running:
            for receiver in list[Any](connection.wait(list(running))):
                try:
                    yield receiver.recv()
                except EOFError:
                    process, name = running.pop(receiver)
                    process.join()
                    if process.exitcode:
                        yield f"the process of GPU {name} has ended with status {process.exitcode}"
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


def _process(work: Work, number: int, name: str, sender: Any) -> None:
    """One process."""
    os.environ[_VISIBLE] = name
    try:
        work(number, sender.send)
    except WeftError as error:
        sender.send(f"GPU {name}: {error.diagnostics[0].message}")
    except KeyboardInterrupt:
        os._exit(130)  # the first process reports it
