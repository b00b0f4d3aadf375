"""The messages of an editor: frames on stdin, and what is answered to messages that break a rule of LSP."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from cattrs import BaseValidationError, transform_error
from cattrs.v import format_exception
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol

MOST_BYTES = 1 << 28
"""The size of a message that is read: any text that an editor opens is shorter."""
_LONGEST_FIELD = 8192
_CHARSETS = ("utf-8", "utf8")
_LONGEST_REASON = 500
_WORD = re.compile(r"_([a-z])")

logging.getLogger("pygls").setLevel(logging.ERROR)  # warnings are about what LSP lets a server ignore


class FrameError(Exception):
    """Where the next message begins isn't known: the session must end."""


class CharsetError(Exception):
    """A message whose characters aren't in UTF-8. The next one follows it."""


def read(stream: BinaryIO) -> bytes | None:
    """The content of the next message; None at the end. Raises FrameError and CharsetError."""
    fields = dict(_fields(stream))
    if not fields:
        return None
    if (length := fields.get("content-length")) is None:
        raise FrameError("a message must have the header field Content-Length")
    if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= MOST_BYTES):
        raise FrameError(f"Content-Length must be in 0..{MOST_BYTES}, got '{length[:80]}'")
    content = stream.read(int(length))
    if len(content) < int(length):
        raise FrameError(f"stdin ended after {len(content)} of the {length} bytes of a message")
    for parameter in fields.get("content-type", "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in _CHARSETS:
            raise CharsetError(f"charset must be utf-8, got '{value.strip()[:80]}'")
    return content


def _fields(stream: BinaryIO) -> Iterator[tuple[str, str]]:
    """The fields of a header, with names in lower case. There is none at the end of the stream."""
    begun = False
    while line := stream.readline(_LONGEST_FIELD):
        text = line.decode("latin-1").strip()
        name, colon, value = text.partition(":")
        if not text:
            if begun:
                return
        elif not colon or not line.endswith(b"\n"):
            raise FrameError(f"a header field must be 'Name: value' and a line end, got {text[:80]!a}")
        else:
            begun = True
            yield name.strip().lower(), value.strip()
    if begun:
        raise FrameError("stdin ended within the header of a message")


class Protocol(LanguageServerProtocol):  # type: ignore[misc]
    """LSP, with an answer to each request, also to one that breaks a rule. Notifications that do are written
    to the editor's log.
    """

    _initialized = False

    def __init__(self, server: Any, converter: Any) -> None:
        converter.register_structure_hook(str, _as_text)
        super().__init__(server, converter)

    def receive(self, content: bytes) -> None:
        """Handles the content of a message."""
        try:
            message = json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            self.refuse(None, types.ErrorCodes.ParseError, f"a message must be JSON in UTF-8: {error}")
            return
        number = message.get("id") if isinstance(message, dict) else None
        if isinstance(number, bool) or not isinstance(number, int | str):
            number = None
        if complaint := _complaint(message):
            self.refuse(number, types.ErrorCodes.InvalidRequest, complaint)
        elif "method" in message:
            self._called(message, number)
        elif number in self._request_futures:
            kind = types.ResponseErrorMessage if "error" in message else self._result_types.pop(number)
            self._structured(message, kind)

    def refuse(self, number: "int | str | None", code: int, reason: str) -> None:
        """Answers a request, by its number if that is known, with an error."""
        error = {"code": int(code), "message": reason[:_LONGEST_REASON]}
        self._send_data({"jsonrpc": "2.0", "id": number, "error": error})

    def _called(self, message: dict[str, Any], number: "int | str | None") -> None:
        """Handles a request, or a notification if it has no number."""
        method = message["method"]
        refusal = self._refusal(method, is_request="id" in message)
        if refusal is None:
            kind = self.get_message_type(method)
            wrong = self._structured(message, kind) if kind is not None else None
            if wrong is None:
                return
            refusal = types.ErrorCodes.InvalidParams, f"{method}: {wrong}"
            if number is None and self._initialized:
                log = types.LogMessageParams(types.MessageType.Error, refusal[1][:_LONGEST_REASON])
                self._server.window_log_message(log)
        if number is not None:
            self.refuse(number, *refusal)

    def _refusal(self, method: str, *, is_request: bool) -> tuple[int, str] | None:
        """Why a call can't be handled now: the code of the error, and the reason."""
        if method == types.EXIT:
            return None
        codes = types.ErrorCodes
        if not self._initialized and method != types.INITIALIZE:
            return codes.ServerNotInitialized, f"the first request must be initialize, got {method}"
        if self._shutdown:
            return codes.InvalidRequest, f"only exit may follow shutdown, got {method}"
        if self._initialized and method == types.INITIALIZE:
            return codes.InvalidRequest, "initialize must be the first request, and the only one"
        known = {types.CANCEL_REQUEST, *self.fm.features, *self.fm.builtin_features}
        if method not in known:
            return codes.MethodNotFound, f"the server has no method {method}"
        answered = types.METHOD_TO_TYPES[method][1] is not None
        if answered != is_request:
            what = "request, which has an id" if answered else "notification, which has no id"
            return codes.InvalidRequest, f"{method} is a {what}"
        return None

    def _structured(self, message: dict[str, Any], kind: Any) -> str | None:
        """Handles a message of a kind; returns what is wrong with it, if anything."""
        try:
            structured = self._converter.structure(message, kind)
        except BaseValidationError as error:
            return "; ".join(map(_as_json, transform_error(error, "message", _reason)))
        except RecursionError:
            return "the message is nested too deeply"
        self._initialized |= message.get("method") == types.INITIALIZE
        self.handle_message(structured)
        return None


def _as_text(value: Any, _: type) -> str:
    """A string, which nothing else becomes."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _reason(error: BaseException, kind: Any) -> str:
    """What is wrong with a value. For numbers out of range, LSP's types know more."""
    reason: str = format_exception(error, kind)
    return str(error).partition("\n")[0] if reason == "invalid value" else reason


def _as_json(reason: str) -> str:
    """A reason, with the names in its path as JSON has them."""
    what, at, path = reason.rpartition(" @ ")
    return what + at + _WORD.sub(lambda word: word[1].upper(), path)


def _complaint(message: Any) -> str | None:
    """What makes JSON no message of JSON-RPC."""
    if not isinstance(message, dict):
        return f"a message must be an object, got {json.dumps(message)[:80]}"
    if message.get("jsonrpc") != "2.0":
        return f'jsonrpc must be "2.0", got {json.dumps(message.get("jsonrpc"))[:80]}'
    number = message.get("id", 0)
    if isinstance(number, bool) or not isinstance(number, int | str):
        return f"id must be an integer or a string, got {json.dumps(number)[:80]}"
    if not isinstance(message.get("method", ""), str):
        return f"method must be a string, got {json.dumps(message['method'])[:80]}"
    if not {"method", "result", "error"} & message.keys():
        return "a message must have a method, a result or an error"
    return None


def _is_no_answer(record: logging.LogRecord) -> bool:
    """Whether the editor doesn't get an exception as the answer to a request, anyway."""
    return record.exc_info is None or not isinstance(record.exc_info[1], JsonRpcException)


logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_no_answer)
