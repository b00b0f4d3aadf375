"""Messages that break a rule of LSP get an error as their answer, and the session goes on where it can."""

import asyncio
import io
import json
import subprocess

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls: pip install 'weft[lsp]'")
import warm_tools
from lsp_client import SECONDS

from weft.tools import weft
from weft.tools.language_server import messages, server

INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {"processId": None, "rootUri": None, "capabilities": {}},
}
DOCUMENT = {"uri": "file:///a.ptx", "languageId": "ptx", "version": 1, "text": ".version 8.0"}
PLACE = {"textDocument": {"uri": DOCUMENT["uri"]}, "position": {"line": 0, "character": 0}}
OPEN = {"method": "textDocument/didOpen", "params": {"textDocument": DOCUMENT}}
SHUTDOWN = {"id": 9, "method": "shutdown"}
PARSE, INVALID, METHOD, PARAMS, TOO_EARLY = -32700, -32600, -32601, -32602, -32002


def hover(**changed):
    return {"id": 5, "method": "textDocument/hover", "params": PLACE | changed}


def content(message):
    if isinstance(message, bytes):
        return message
    return json.dumps({"jsonrpc": "2.0"} | message if isinstance(message, dict) else message).encode()


def frame(message):
    data = content(message)
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def answers(*sent, begun=True):
    """What the server sends for messages, after those of `begun`."""

    async def session():
        output = io.BytesIO()
        stream = b"".join(map(frame, (INITIALIZE, *sent) if begun else sent))
        one = server.Session(None)
        try:
            assert await one.run(io.BytesIO(stream), output) == 0
            await asyncio.sleep(0.1)
        finally:
            one.checks.close()
        return output.getvalue()

    stream = io.BytesIO(asyncio.run(session()))
    found = []
    while (data := messages.read(stream)) is not None:
        found.append(json.loads(data))
    return found[1:] if begun else found


@pytest.mark.parametrize(
    ("sent", "number", "code", "reason"),
    [
        (b"", None, PARSE, "a message must be JSON in UTF-8"),
        (b"{bad", None, PARSE, "a message must be JSON in UTF-8"),
        (b"\xff{}", None, PARSE, "can't decode byte 0xff"),
        (b"[" * 100_000, None, PARSE, "recursion"),
        ([1, 2], None, INVALID, "a message must be an object, got [1, 2]"),
        (3, None, INVALID, "got 3"),
        (None, None, INVALID, "got null"),
        ({"jsonrpc": "1.0", "id": 4}, 4, INVALID, 'jsonrpc must be "2.0", got "1.0"'),
        ({"id": 4}, 4, INVALID, "a message must have a method, a result or an error"),
        ({"id": 4, "method": 7}, 4, INVALID, "method must be a string, got 7"),
        ({"id": [3], "method": "shutdown"}, None, INVALID, "id must be an integer or a string, got [3]"),
        ({"id": None, "method": "shutdown"}, None, INVALID, "got null"),
        ({"id": True, "method": "shutdown"}, None, INVALID, "got true"),
        ({"id": "x", "method": "foo/bar"}, "x", METHOD, "the server has no method foo/bar"),
        ({"id": 4, "method": "$/foo"}, 4, METHOD, "the server has no method $/foo"),
        (INITIALIZE, 1, INVALID, "initialize must be the first request, and the only one"),
        ({"id": 4} | OPEN, 4, INVALID, "textDocument/didOpen is a notification, which has no id"),
        (hover() | {"params": None}, 5, PARAMS, "expected HoverParams @ message.params"),
        (hover() | {"params": [1]}, 5, PARAMS, "textDocument/hover: invalid"),
        (hover(textDocument={"uri": None}), 5, PARAMS, "expected str @ message.params.textDocument.uri"),
        (hover(position={"line": "x", "character": 0}), 5, PARAMS, "expected int @ message.params.position"),
        (hover(position={"line": -1, "character": 0}), 5, PARAMS, "range [0:2147483647], but was -1"),
        (hover(position={"line": 10**30, "character": 0}), 5, PARAMS, "in range [0:2147483647]"),
        (
            hover(position={"character": 0}),
            5,
            PARAMS,
            "required field missing @ message.params.position.line",
        ),
    ],
)
def test_a_request_that_breaks_a_rule_is_answered_with_an_error(sent, number, code, reason, capfd):
    refused, answered = answers(sent, SHUTDOWN)
    assert (refused["id"], refused["error"]["code"]) == (number, code)
    assert reason in refused["error"]["message"]
    assert answered == {"jsonrpc": "2.0", "id": 9, "result": None}
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"method": "foo/bar", "params": {}}, None),
        ({"method": "$/foo"}, None),
        ({"id": 77, "result": None}, None),
        ({"id": 77, "error": "x"}, None),
        ({"method": "$/cancelRequest", "params": {"id": 77}}, None),
        ({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "file:///b"}}}, None),
        ({"method": "$/cancelRequest"}, "$/cancelRequest: required field missing @ message.params"),
        ({"method": "textDocument/didOpen", "params": {"textDocument": 5}}, "textDocument/didOpen: invalid"),
        (
            {"method": "textDocument/didOpen", "params": {"textDocument": DOCUMENT | {"text": 5}}},
            "expected str @ message.params.textDocument.text",
        ),
    ],
)
def test_a_notification_gets_no_answer(sent, reason, capfd):
    *logged, answered = answers(sent, SHUTDOWN)
    assert answered["id"] == 9
    assert [each["method"] for each in logged] == ["window/logMessage"] * (reason is not None)
    assert reason is None or reason in logged[0]["params"]["message"]
    assert capfd.readouterr().err == ""


def test_nothing_precedes_initialize_or_follows_shutdown():
    early, begun = answers(hover(), OPEN, INITIALIZE, begun=False)
    assert (early["id"], early["error"]["code"]) == (5, TOO_EARLY)
    assert "result" in begun
    malformed, again = answers(INITIALIZE | {"params": {}}, INITIALIZE, begun=False)
    assert malformed["error"]["code"] == PARAMS
    assert "result" in again
    _, late = answers(SHUTDOWN, OPEN, hover())
    assert (late["id"], late["error"]["code"]) == (5, INVALID)


def test_a_chip_that_is_no_text_is_refused():
    settings = {"method": "workspace/didChangeConfiguration", "params": {"settings": {"chip": [1]}}}
    shown, _ = answers(settings, SHUTDOWN)
    assert "weft.chip must be a known chip" in shown["params"]["message"]


def read(data):
    return messages.read(io.BytesIO(data))


def test_headers():
    assert read(b"") is None
    assert read(b"\r\n\r\n") is None
    assert read(b"content-length:2\r\nX: y\r\n\r\n{}") == b"{}"
    assert read(b"Content-Length: 2\r\nContent-Type: a/b; charset=UTF-8\r\n\r\n{}") == b"{}"
    with pytest.raises(messages.CharsetError, match="charset must be utf-8, got 'latin-1'"):
        read(b"Content-Length: 2\r\nContent-Type: a/b; charset=latin-1\r\n\r\n{}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello\r\n", "a header field must be 'Name: value' and a line end, got 'hello'"),
        (bytes(range(256)), "a header field must be"),
        (b"X: " + b"y" * 20_000, "a header field must be"),
        (b"X: y\r\n\r\n", "a message must have the header field Content-Length"),
        (b"Content-Length: -5\r\n\r\n{}", "Content-Length must be in 0..268435456, got '-5'"),
        (b"Content-Length: \xb2\r\n\r\n{}", "Content-Length must be in"),
        (b"Content-Length: 99999999999999999999999\r\n\r\n{}", "Content-Length must be in"),
        (b"Content-Length: 2\r\n", "stdin ended within the header of a message"),
        (b"Content-Length: 2\r\n\r\n{", "stdin ended after 1 of the 2 bytes of a message"),
    ],
)
def test_a_frame_that_has_no_known_end_ends_the_session(data, reason):
    with pytest.raises(messages.FrameError) as raised:
        read(data)
    assert reason in str(raised.value)


def test_the_server_tells_the_editor_and_stderr_why_it_ends():
    command = [warm_tools.folder() / "weft", "lsp"]
    sent = frame(INITIALIZE) + b"Content-Length: x\r\n\r\n"
    done = subprocess.run(command, input=sent, capture_output=True, timeout=SECONDS)
    assert done.returncode == 1
    assert done.stderr.startswith(b"weft lsp: error: Content-Length must be in 0..268435456, got 'x'")
    assert b'"code": -32700, "message": "Content-Length must be' in done.stdout


def test_the_server_ends_when_the_editor_reads_no_more():
    pipe = subprocess.PIPE
    process = subprocess.Popen([warm_tools.folder() / "weft", "lsp"], stdin=pipe, stdout=pipe, stderr=pipe)
    process.stdout.close()
    process.stdin.write(frame(INITIALIZE))
    process.stdin.flush()
    assert process.wait(SECONDS) == 1
    assert process.stderr.read().startswith(b"weft lsp: error: can't write to the editor: ")


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_a_closed_stream_is_refused(name, monkeypatch, capsys):
    monkeypatch.setattr(f"sys.{name}", None)
    assert weft.main(["lsp"]) == 1
    assert f"the language server needs {name}, which is closed" in capsys.readouterr().err
