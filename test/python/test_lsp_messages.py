"""What ends a session, and messages that don't, although they break a rule of LSP."""

import asyncio
import io
import json
import subprocess

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls: pip install 'weft[lsp]'")
import warm_tools
from lsp_client import SECONDS

from weft.tools import weft
from weft.tools.language_server import server

INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {"processId": None, "rootUri": None, "capabilities": {}},
}
HOVER = {"id": 5, "method": "textDocument/hover", "params": None}
SHUTDOWN = {"id": 9, "method": "shutdown"}


def frame(message):
    data = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0"} | message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def answers(*sent):
    """What the server sends for messages, after the first answer."""

    async def session():
        output, one = io.BytesIO(), server.Session(None)
        try:
            stream = io.BytesIO(b"".join(map(frame, (INITIALIZE, *sent))))
            assert await one.run(stream, output) == 0
            await asyncio.sleep(0.1)
        finally:
            one.checks.close()
        return output.getvalue()

    parts = asyncio.run(session()).split(b"\r\n\r\n")[1:]
    return [json.loads(part.partition(b"Content-Length")[0]) for part in parts][1:]


@pytest.mark.parametrize("sent", [b"{bad", b"[" * 100_000, HOVER, {"method": "$/foo"}])
def test_the_session_goes_on_after_a_message_that_breaks_a_rule(sent):
    *_, answered = answers(sent, SHUTDOWN)
    assert answered == {"jsonrpc": "2.0", "id": 9, "result": None}


def test_a_chip_that_is_no_text_is_refused():
    settings = {"method": "workspace/didChangeConfiguration", "params": {"settings": {"chip": [1]}}}
    shown, _ = answers(settings, SHUTDOWN)
    assert "weft.chip must be a known chip" in shown["params"]["message"]


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
