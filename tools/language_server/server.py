"""The language server: what it answers to an editor, on stdin and stdout."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, BinaryIO, NoReturn, TypeVar

from lsprotocol import types
from pygls.io_ import StdinAsyncReader, run_async
from pygls.lsp.server import LanguageServer

from weft.errors import Diagnostic
from weft.isa.chips import CHIPS, unknown_chip
from weft.tools import cli
from weft.tools.language_server import conversion, mlir_features, ptx_features
from weft.tools.language_server.catalog import Facts, OpFacts
from weft.tools.language_server.checking import Checks
from weft.tools.language_server.documents import Document, kind_of
from weft.tools.language_server.problem import Problem
from weft.tools.language_server.text import Text
from weft.version import VERSION

_TRIGGERS = (".", '"', "=", " ", "{")
T = TypeVar("T")
_FEATURES: dict[str, ModuleType] = {"mlir": mlir_features, "ptx": ptx_features}

logging.getLogger("pygls").setLevel(logging.ERROR)  # warnings are about what LSP lets a server ignore


def serve(chip: str | None) -> int:
    """Serves an editor until it ends the session or closes stdin. Returns the exit status."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed must not get between the messages
    session = Session(chip)
    try:
        return asyncio.run(session.run(sys.stdin.buffer, output))
    finally:
        session.checks.close()


class Session:
    """A session with one editor."""

    def __init__(self, chip: str | None) -> None:
        self.server = LanguageServer("weft", VERSION)
        self.checks = Checks(self._publish)
        self._documents: dict[str, Document] = {}
        self._known: asyncio.Task[dict[str, OpFacts]] | None = None
        self._default, self._chip = chip, chip
        self._shut_down = False
        # pygls's own documents count lines otherwise than LSP, after U+2028 and others: these replace them.
        builtin = self.server.protocol.fm.add_builtin_feature
        builtin(types.TEXT_DOCUMENT_DID_OPEN, self._opened)
        builtin(types.TEXT_DOCUMENT_DID_CHANGE, self._changed)
        builtin(types.TEXT_DOCUMENT_DID_CLOSE, self._closed)
        builtin(types.EXIT, self._exit)
        for name, handler in (
            (types.INITIALIZE, self._initialize),
            (types.INITIALIZED, self._initialized),
            (types.SHUTDOWN, self._shutdown),
            (types.WORKSPACE_DID_CHANGE_CONFIGURATION, self._configured),
            (types.TEXT_DOCUMENT_HOVER, self._hover),
            (types.TEXT_DOCUMENT_DEFINITION, self._definition),
            (types.TEXT_DOCUMENT_REFERENCES, self._references),
            (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._symbols),
        ):
            self._feature(name, handler)
        actions = types.CodeActionOptions([types.CodeActionKind.QuickFix])
        self._feature(types.TEXT_DOCUMENT_CODE_ACTION, self._actions, actions)
        triggers = types.CompletionOptions(trigger_characters=_TRIGGERS)
        self._feature(types.TEXT_DOCUMENT_COMPLETION, self._completion, triggers)

    def _feature(self, name: str, handler: Callable[[Any], Any], options: Any = None) -> None:
        self.server.feature(name, options)(partial(handler))  # pygls writes into it, which a method refuses

    # The session, and its settings

    async def run(self, editor: BinaryIO, output: BinaryIO) -> int:
        """Answers messages until there are no more; returns the exit status."""
        protocol = self.server.protocol
        protocol.set_writer(_Writer(output, self._end))
        reader, failed = StdinAsyncReader(editor), self.server.report_server_error
        await run_async(threading.Event(), reader, protocol, error_handler=failed)
        return 0

    def _end(self, status: int) -> NoReturn:
        """Ends at once: a thread may be waiting for stdin until the editor closes it."""
        self.checks.close()
        os._exit(status)

    def _initialize(self, params: types.InitializeParams) -> None:
        self._set_chip(params.initialization_options)

    async def _initialized(self, params: types.InitializedParams) -> None:
        await self._ask_settings()

    async def _facts(self) -> Facts:
        """The facts about operations, which are asked for once."""
        if self._known is None:
            self._known = asyncio.get_running_loop().create_task(self._load_facts())
        facts = await asyncio.shield(self._known)
        if not facts:
            self._known = None
        return facts

    async def _load_facts(self) -> dict[str, OpFacts]:
        plain = await self.checks.catalog()
        return {str(each["name"]): OpFacts.of_plain(each) for each in plain}

    def _shutdown(self, params: None) -> None:
        self._shut_down = True
        self.checks.close()

    def _exit(self, params: None) -> None:
        self._end(0 if self._shut_down else 1)

    async def _configured(self, params: types.DidChangeConfigurationParams) -> None:
        if params.settings:
            self._set_chip(params.settings)
        else:
            await self._ask_settings()

    async def _ask_settings(self) -> None:
        """Asks the editor for its settings, if it can be asked."""
        workspace = self.server.client_capabilities.workspace
        if workspace is None or not workspace.configuration:
            return
        items = [types.ConfigurationItem(section="weft")]
        answer = await self.server.workspace_configuration_async(types.ConfigurationParams(items))
        if answer and answer[0]:
            self._set_chip(answer[0])

    def _set_chip(self, settings: Any) -> None:
        """Takes the chip of settings such as {"chip": "sm_90a"} or {"weft": {"chip": "sm_90a"}}."""
        if isinstance(settings, dict) and isinstance(settings.get("weft"), dict):
            settings = settings["weft"]
        if not isinstance(settings, dict) or "chip" not in settings:
            return
        wanted = settings["chip"] or self._default
        if wanted is not None and not (isinstance(wanted, str) and wanted in CHIPS):
            warning = f"weft.chip {unknown_chip(str(wanted)[:80])}"
            params = types.ShowMessageParams(types.MessageType.Warning, warning)
            # Once the editor takes messages.
            asyncio.get_running_loop().call_soon(self.server.window_show_message, params)
            wanted = self._default
        if wanted != self._chip:
            self._chip = wanted
            for document in list(self._documents.values()):
                self._submit(replace(document, chip=wanted))

    # Documents

    def _opened(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        kind = kind_of(item.uri, item.language_id, item.text)
        self._submit(Document(item.uri, kind, Text(item.text), item.version, self._chip))

    def _changed(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self._documents.get(params.text_document.uri)
        if document is None:
            return
        text = document.text
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                text = text.edited(*conversion.span_of(text, change.range), change.text)
            else:
                text = Text(change.text)
        # The next check's problems have fixes of their own.
        self._submit(replace(document, text=text, version=params.text_document.version, problems=()))

    def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if self._documents.pop(uri, None) is not None:
            self.checks.forget(uri)
            self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _submit(self, document: Document) -> None:
        self._documents[document.uri] = document
        self.checks.submit(document)

    def _publish(self, document: Document, found: list[Problem]) -> None:
        document.problems = found
        uri = document.uri
        diagnostics = [conversion.diagnostic(uri, document.text, each) for each in found]
        params = types.PublishDiagnosticsParams(uri, diagnostics, document.version)
        self.server.text_document_publish_diagnostics(params)

    def _document(self, identifier: types.TextDocumentIdentifier) -> Document | None:
        document = self._documents.get(identifier.uri)
        return document if document is not None and document.is_short else None

    # Features. Those that read a whole text do so in a thread, on the text of the time of the request.

    async def _facts_for(self, params: types.TextDocumentPositionParams) -> Facts:
        document = self._document(params.text_document)
        return await self._facts() if document is not None and document.kind == "mlir" else {}

    async def _at(
        self, params: types.TextDocumentPositionParams, answer: Callable[[ModuleType, str, int], T]
    ) -> tuple[Text, T] | None:
        """The text of a document, and what its kind's features answer about a position there."""
        if (document := self._document(params.text_document)) is None:
            return None
        text, features = document.text, _FEATURES[document.kind]
        offset = conversion.offset(text, params.position)
        return text, await asyncio.to_thread(answer, features, text.text, offset)

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        facts = await self._facts_for(params)
        found = await self._at(params, lambda of, text, at: of.hover(text, at, self._chip, facts))
        return conversion.hover(*found) if found else None

    async def _completion(self, params: types.CompletionParams) -> types.CompletionList:
        facts = await self._facts_for(params)
        found = await self._at(params, lambda of, text, at: of.completions(text, at, self._chip, facts))
        items = conversion.completions(*found) if found else []
        return types.CompletionList(is_incomplete=True, items=items)

    async def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        found = await self._at(params, lambda of, text, at: of.definition(text, at))
        if found is None or found[1] is None:
            return None
        return types.Location(params.text_document.uri, conversion.range_of(*found))

    async def _references(self, params: types.ReferenceParams) -> list[types.Location]:
        text, spans = await self._at(params, lambda of, text, at: of.references(text, at)) or (Text(""), [])
        uri = params.text_document.uri
        return [types.Location(uri, conversion.range_of(text, span)) for span in spans]

    async def _symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        if (document := self._document(params.text_document)) is None:
            return []
        text, outline = document.text, _FEATURES[document.kind].symbols
        return [conversion.symbol(text, each) for each in await asyncio.to_thread(outline, text.text)]

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = self._document(params.text_document)
        if document is None:
            return []
        span = conversion.span_of(document.text, params.range)
        workspace = self.server.client_capabilities.workspace
        edits = workspace.workspace_edit if workspace else None
        return list(conversion.actions(document, span, bool(edits and edits.document_changes)))


class _Writer:
    """Writes to the editor. `end` ends the process with a status when the editor no longer reads."""

    def __init__(self, output: BinaryIO, end: Callable[[int], NoReturn]) -> None:
        self._output, self._end = output, end

    def write(self, data: bytes) -> None:
        try:
            self._output.write(data)
            self._output.flush()
        except OSError as error:
            cli.report([Diagnostic(f"can't write to the editor: {error.strerror}")], "weft lsp")
            self._end(1)

    def close(self) -> None:
        """Nothing: the process's end closes the stream."""
