"""Checks the newest texts of documents after a pause, never in the server's own process."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from weft.compiler.channels import Message
from weft.compiler.worker import DeathError, Worker
from weft.errors import WeftError
from weft.tools.language_server import judging
from weft.tools.language_server.documents import Document
from weft.tools.language_server.problem import Problem, problem

PAUSE_SECONDS = 0.2
"""How long a document must stay unchanged before it is checked."""
PATIENCE_SECONDS = 1.0
"""How long the check of an old text may go on after an edit. To start another process takes about as long."""
TIMEOUT_SECONDS = 60.0


T = TypeVar("T")
Publish = Callable[[Document, list[Problem]], None]


class Checks:
    """The checks of all documents. Its methods are called in the event loop."""

    def __init__(self, publish: Publish) -> None:
        self._lanes = {kind: _Lane(kind, publish) for kind in ("mlir", "ptx")}

    def submit(self, check: Document) -> None:
        """Checks a document, instead of its earlier versions."""
        for kind, lane in self._lanes.items():
            if kind == check.kind:
                lane.submit(check)
            else:
                lane.forget(check.uri)

    def forget(self, uri: str) -> None:
        """Ends the checks of a document."""
        for lane in self._lanes.values():
            lane.forget(uri)

    async def catalog(self) -> list[dict[str, object]]:
        """The facts about operations (`catalog.collect`); nothing where MLIR can't be loaded."""
        return await self._lanes["mlir"].catalog()

    def close(self) -> None:
        """Ends all checks."""
        for lane in self._lanes.values():
            lane.close()


class _Lane:
    """The checks of one kind, one after the other, in one process."""

    def __init__(self, kind: str, publish: Publish) -> None:
        self._worker: Worker = judging.process(f"the process that checks {kind}")
        self._publish = publish
        self._newest: dict[str, Document] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._waiting: dict[str, Document] = {}
        self._running: Document | None = None
        self._task: asyncio.Task[None] | None = None

    def submit(self, check: Document) -> None:
        self.forget(check.uri)
        self._newest[check.uri] = check
        loop = asyncio.get_running_loop()
        self._timers[check.uri] = loop.call_later(PAUSE_SECONDS, self._ready, check)

    def forget(self, uri: str) -> None:
        self._newest.pop(uri, None)
        self._waiting.pop(uri, None)
        if timer := self._timers.pop(uri, None):
            timer.cancel()
        if (running := self._running) is not None and running.uri == uri:
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._interrupt, running)

    def close(self) -> None:
        """Also after the event loop has ended."""
        for timer in self._timers.values():
            timer.cancel()
        for known in (self._timers, self._waiting, self._newest):
            known.clear()
        self._worker.interrupt()
        self._worker.stop()

    def _interrupt(self, check: Document) -> None:
        if self._running is check:
            self._worker.interrupt()

    def _ready(self, check: Document) -> None:
        self._timers.pop(check.uri, None)
        self._waiting[check.uri] = check
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            check = self._waiting.pop(next(iter(self._waiting)))
            self._running = check
            found = await self._in_thread(self._asked, check)
            self._running = None
            if self._newest.get(check.uri) is check:
                self._publish(check, found)

    def _asked(self, check: Document) -> list[Problem]:
        """The problems of a document, or one about a check that failed. In a thread."""
        request = judging.request(check.kind, check.text.text, check.chip)
        try:
            answer = self._answer(check, request)
        except TimeoutError:
            return [_failure(f"the check didn't finish within {TIMEOUT_SECONDS:g} s", "warning")]
        except DeathError as death:
            advice = "weft-opt writes a reproducer" if check.kind == "mlir" else "this is a defect of Weft"
            return [_failure(f"the check crashed ({death.cause}) while {death.phase}: {advice}")]
        except WeftError as error:
            return [_failure(str(error))]
        if failure := answer.get("failure"):
            return [_failure(failure)]
        problems: list[Problem] = answer["problems"]
        return problems

    def _answer(self, check: Document, request: Message) -> Message:
        """The process's answer, from a second process where the first was killed for an earlier check."""
        try:
            return self._worker.ask(request, TIMEOUT_SECONDS)[0]
        except DeathError as death:
            if not death.killed or self._newest.get(check.uri) is not check:
                raise
            return self._worker.ask(request, TIMEOUT_SECONDS)[0]

    async def catalog(self) -> list[dict[str, object]]:
        def asked() -> list[dict[str, object]]:
            try:
                answer, _ = self._worker.ask({"kind": "catalog"}, TIMEOUT_SECONDS)
            except (TimeoutError, DeathError, WeftError):
                return []
            operations: list[dict[str, object]] = answer.get("operations", [])
            return operations

        return await self._in_thread(asked)

    async def _in_thread(self, ask: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that asks the process. A session's end ends the process first."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except asyncio.CancelledError:
            self._worker.interrupt()
            raise


def _failure(message: str, severity: str = "error") -> Problem:
    """A check that gave no answer, shown at the beginning of the document."""
    return problem((0, 0), message, severity=severity, rule="check")
