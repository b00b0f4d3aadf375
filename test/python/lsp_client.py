"""A client of the language server: starts `weft lsp`, and speaks LSP's frames with it."""

import itertools
import json
import queue
import subprocess
import sys
import threading

SERVER = [sys.executable, "-c", "import sys; from weft.tools.start import weft; sys.exit(weft())", "lsp"]
SECONDS = 60


class Client:
    """One session. What the server sends is kept: answers by number, diagnostics by document."""

    def __init__(self, *options, settings=None, capabilities=None, command=None):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*(command or SERVER), *options], stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._numbers, self._inbox = itertools.count(1), queue.Queue()
        self._settings = settings
        self.messages, self.published = [], []
        self.errors = b""
        for target in (self._read, self._drain):
            threading.Thread(target=target, daemon=True).start()
        workspace = {"configuration": settings is not None, "workspaceEdit": {"documentChanges": True}}
        answer = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "capabilities": {"workspace": workspace} | (capabilities or {}),
            },
        )
        self.capabilities = answer["capabilities"]
        self.notify("initialized", {})

    def _read(self):
        stream = self.process.stdout
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            self._inbox.put(json.loads(stream.read(length)))
        self._inbox.put(None)

    def _drain(self):
        self.errors = self.process.stderr.read()

    def send(self, message):
        data = json.dumps({"jsonrpc": "2.0"} | message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def request(self, method, params):
        """The answer's result."""
        number = next(self._numbers)
        self.send({"id": number, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def until(self, wanted):
        """The next message of a kind; others are kept, and requests answered."""
        while True:
            message = self._inbox.get(timeout=SECONDS)
            assert message is not None, f"the server has ended: {self.errors.decode()}"
            if message.get("method") == "workspace/configuration":
                self.send({"id": message["id"], "result": [self._settings]})
            elif message.get("method") == "textDocument/publishDiagnostics":
                self.published.append(message["params"])
            self.messages.append(message)
            if wanted(message):
                return message

    # Documents

    def open(self, uri, text, language=""):
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return Document(self, uri, text)

    def diagnostics(self, uri, version):
        """The diagnostics of a version of a document, once they have come."""

        def known(params):
            return params["uri"] == uri and params.get("version") == version

        if not any(map(known, self.published)):
            self.until(lambda m: m.get("method", "").endswith("Diagnostics") and known(m["params"]))
        return next(params["diagnostics"] for params in reversed(self.published) if known(params))

    def end(self):
        """Ends the session properly. Returns the exit status."""
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(SECONDS)


class Document:
    """An open document, and its text as the client knows it."""

    def __init__(self, client, uri, text):
        self.client, self.uri, self.text, self.version = client, uri, text, 1

    def position(self, offset):
        """LSP's position, computed in the plainest way."""
        before = self.text[:offset].replace("\r\n", "\n\n").replace("\r", "\n")
        start = before.rfind("\n") + 1
        lines = self.text[:start].replace("\r\n", "\n").replace("\r", "\n").count("\n")
        return {"line": lines, "character": len(self.text[start:offset].encode("utf-16-le")) // 2}

    def offset(self, position):
        return next(i for i in range(len(self.text) + 1) if self.position(i) == position)

    def covered(self, given):
        """The text of a range."""
        return self.text[self.offset(given["start"]) : self.offset(given["end"])]

    def edit(self, start, end, text):
        """Replaces a part of the text, as an editor does."""
        given = {"start": self.position(start), "end": self.position(end)}
        self._changed({"range": given, "text": text}, self.text[:start] + text + self.text[end:])

    def replace(self, text):
        self._changed({"text": text}, text)

    def _changed(self, change, text):
        self.text, self.version = text, self.version + 1
        where = {"uri": self.uri, "version": self.version}
        self.client.notify("textDocument/didChange", {"textDocument": where, "contentChanges": [change]})

    def diagnostics(self):
        return self.client.diagnostics(self.uri, self.version)

    def ask(self, method, offset, **more):
        """The answer to a request about a position."""
        params = {"textDocument": {"uri": self.uri}, "position": self.position(offset)} | more
        return self.client.request(f"textDocument/{method}", params)

    def actions(self, diagnostic):
        params = {
            "textDocument": {"uri": self.uri},
            "range": diagnostic["range"],
            "context": {"diagnostics": [diagnostic]},
        }
        return self.client.request("textDocument/codeAction", params)

    def apply(self, action):
        """Applies the edits of a code action."""
        (change,) = action["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": self.uri, "version": self.version}
        edits = [
            (self.offset(e["range"]["start"]), self.offset(e["range"]["end"]), e) for e in change["edits"]
        ]
        for start, end, edit in sorted(edits, key=lambda each: -each[0]):
            self.edit(start, end, edit["newText"])
