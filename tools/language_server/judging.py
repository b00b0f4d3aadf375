"""The processes that judge documents: MLIR may crash in one, and long checks are ended with it."""

from typing import Any

from weft.compiler import worker
from weft.compiler.channels import Message
from weft.compiler.worker import Worker
from weft.system import phase


def process(name: str) -> Worker:
    """A process that answers `request`s; `name` is what messages call it."""
    return Worker(__name__, name)


def serve(opened: list[str]) -> None:
    """Answers requests in such a process."""
    worker.serve(_answer, opened)


def request(kind: str, text: str, chip: str | None) -> Message:
    """The request for the problems of a document; `kind` is "mlir" or "ptx"."""
    return {"kind": kind, "text": text, "chip": chip}


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    kind = message["kind"]
    if kind == "catalog":
        from weft.tools.language_server import catalog

        phase.enter("listing the operations")
        return {"operations": catalog.collect()}
    try:
        if kind == "ptx":
            from weft.tools.language_server import ptx_checks

            phase.enter("checking PTX")
            return {"problems": ptx_checks.problems(message["text"], message["chip"])}
        from weft.tools.language_server import mlir_checks

        return {"problems": mlir_checks.problems(message["text"], message["chip"])}
    except RecursionError:
        return {"failure": "the text is nested too deeply to be checked"}
    except MemoryError:
        return {"failure": "the check ran out of memory"}
    except Exception as error:
        return {"failure": f"the check failed while {phase.now()}: {type(error).__name__}: {error}"[:1000]}
