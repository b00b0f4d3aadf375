"""Parses a PTX module into the tree of `syntax`.

The instructions that the emulator doesn't support, with the reasons.
"""

from collections.abc import Callable, Sequence

from weft.emulator.errors import PtxError
from weft.emulator.reading.declarations import DeclarationReader
from weft.emulator.reading.syntax import (
    Function,
    Group,
    Instruction,
    Label,
    Name,
    Operand,
    Prototype,
    Register,
    Scope,
    SourceLocation,
    Targets,
    Tree,
    Variable,
)
from weft.isa.chips import CHIPS, NEWEST_PTX, OLDER_TARGETS, PTX_VERSIONS, TARGET_OPTIONS, unknown_chip

_TEXTURES = "textures and surfaces aren't emulated"
_COPIES = "bulk copies to multicast objects aren't emulated"

UNSUPPORTED = {
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURES),
    "multimem.cp": _COPIES,
    "clmad": "carry-less products aren't emulated",
    "setsmemsize": "shared memory that changes its size isn't emulated",
    "ld.async": "asynchronous loads aren't emulated",
    "fma.oob": "results for operands out of bounds aren't emulated",
    "shfl": "must have .sync from sm_70 on",
    "vote": "must have .sync from sm_70 on",
}
"""Instructions by their opcodes, or by an opcode and one of its modifiers."""


def reason(opcode: str) -> str | None:
    """The reason why an instruction isn't supported; None if it isn't listed."""
    first, *modifiers = opcode.split(".")
    if first in ("shfl", "vote") and "sync" in modifiers:
        return None
    reasons = (UNSUPPORTED.get(name) for name in (first, *(f"{first}.{modifier}" for modifier in modifiers)))
    return next((why for why in reasons if why is not None), None)


_STATE_SPACES = ("global", "shared", "const", "local", "param")
_MODULE_SPACES = ("global", "shared", "const")
_LINKAGE = (".visible", ".extern", ".weak", ".common")
_MAX_NESTING = 64
_FUNCTIONS = 5 << 44


def parse(text: str) -> Tree:
    """The tree of a PTX module. Raises PtxError, with line and column, at the first error."""
    try:
        return _Reader(text, whole=True).module()
    except PtxError:
        return _Reader(text).module()  # all tokens of a text have the first of its errors


class _Reader(DeclarationReader):
    def module(self) -> Tree:
        tree = Tree((0, 0), "", self.scope, {}, [])
        while self.token.kind != "end":
            self._top_level(tree)
        if not tree.target:
            self.fail("a .target directive")
        return tree

    def _top_level(self, tree: Tree) -> None:
        linkage = set[str]()
        while self.token.text in _LINKAGE:
            linkage.add(self.take().text)
        text = self.token.text
        if text == ".version":
            self.take()
            major, dot, minor = self.token.text.partition(".")
            if not (dot and major.isdecimal() and minor.isdecimal()):
                self.fail("a version")
            tree.version = int(major), int(minor)
            if tree.version not in PTX_VERSIONS:
                newest = ".".join(map(str, NEWEST_PTX))
                self.refuse(f"unknown PTX version {self.token.text}: the newest known version is {newest}")
            self.take()
        elif text == ".target":
            self.take()
            tree.target = self._chip(tree.version)
            while self.accept(","):
                if self.token.text not in TARGET_OPTIONS:
                    self.fail(f"one of {', '.join(TARGET_OPTIONS)} after the chip")
                self.take()
        elif text == ".address_size":
            self.take()
            if self.integer("an address size") != 64:
                self.fail(".address_size 64")
        elif text in (".entry", ".func"):
            self._function(tree)
        elif text.removeprefix(".").partition("::")[0] in (*_MODULE_SPACES, "align"):
            tree.variables += self.variables(self.scope, external=".extern" in linkage)
        elif text in _SKIPPED:
            _SKIPPED[text](self)
        elif self.token.kind == "name" and self.tokens[self.next + 1].text == ":":
            self._table(self.scope)
        elif not (linkage and self.accept(";")):
            self.fail("a directive")

    def _chip(self, version: tuple[int, int]) -> str:
        """The chip that `.target` names."""
        name = self.token.text.replace("compute_", "sm_", 1)
        if name not in CHIPS and name not in OLDER_TARGETS:
            self.refuse(f".target {unknown_chip(name)}")
        if name in CHIPS and version < CHIPS[name].ptx:
            first, current = (".".join(map(str, v)) for v in (CHIPS[name].ptx, version))
            self.refuse(f".target {name} needs .version {first} or later, got {current}")
        self.take()
        return name

    # Functions

    def _function(self, tree: Tree) -> None:
        is_entry = self.take().text == ".entry"
        scope = Scope(self.scope, [])
        function = Function("", is_entry, self.location, scope)
        if self.token.text == "(":
            function.returns = self._formals(scope)
        name = self.kind("name", "a function's name")
        function.name, function.location = name.text, SourceLocation(name.line, name.column)
        if self.token.text == "(":
            function.params = self._formals(scope)
        self._function_directives(function)
        if not self.accept(";"):
            function.body = []
            self.expect("{")
            labels = list[Label]()
            self._block(function, scope, labels, 0)
        known = tree.functions.get(function.name)
        if known is not None and known.body is not None:
            if function.body is not None:
                raise PtxError(f"function '{function.name}' is defined twice", *function.location)
            return
        function.address = known.address if known else _FUNCTIONS + 16 * len(tree.functions)
        tree.functions[function.name] = function
        tree.scope.names[function.name] = function

    def _formals(self, scope: Scope) -> list[Variable | Register]:
        def formal() -> Sequence[Variable | Register]:
            if self.token.text == ".reg":
                return self.register_declaration(scope)
            return self.variable_list(scope, self.state_space(), single=True)

        return [each for formals in self.enclosed("()", formal) for each in formals]

    def _function_directives(self, function: Function) -> None:
        while self.token.kind == "directive":
            name = self.take().text.removeprefix(".")
            if name == "pragma":
                self.listed(lambda: self.kind("string", "a pragma"))
                self.expect(";")
                continue
            if name not in _FUNCTION_DIRECTIVES:
                self.next -= 1
                self.fail("a directive of a function, '{' or ';'")
            values: tuple[int, ...] = ()
            if self.token.kind == "integer":
                values = tuple(self.listed(lambda: self.integer("a number")))
            elif name == "abi_preserve" or name == "abi_preserve_control":
                self.fail("a number")
            function.directives[name] = values

    def _block(self, function: Function, scope: Scope, labels: list[Label], depth: int) -> None:
        """The statements up to the `}` that closes this block."""
        assert function.body is not None
        if depth > _MAX_NESTING:
            self.fail(f"at most {_MAX_NESTING} nested blocks")
        while not self.accept("}"):
            token = self.token
            if token.instruction is not None:
                self.next += 1
                token.instruction.scope = scope
                function.body.append(token.instruction)
                continue
            if token.kind == "end":
                self.fail("'}'")
            if self.accept("{"):
                self._block(function, Scope(scope), labels, depth + 1)
            elif token.kind == "directive":
                self._directive(function, scope)
            elif token.kind == "name" and self.tokens[self.next + 1].text == ":":
                if self.tokens[self.next + 2].text in _TABLES:
                    self._table(scope)
                else:
                    self.take()
                    self.expect(":")
                    location = SourceLocation(token.line, token.column)
                    self.declare(scope, token.text, Label(token.text, location, len(function.body)), location)
            else:
                function.body.append(self._instruction(scope))

    def _directive(self, function: Function, scope: Scope) -> None:
        text = self.token.text
        if text == ".reg":
            self.register_declaration(scope)
            self.expect(";")
        elif text.removeprefix(".").partition("::")[0] in (*_STATE_SPACES, "align") or text in _LINKAGE:
            external = False
            while self.token.text in _LINKAGE:
                external |= self.take().text == ".extern"
            function.variables += self.variables(scope, external)
        elif text in _SKIPPED:
            _SKIPPED[text](self)
        else:
            self.fail("a statement")

    def _table(self, scope: Scope) -> None:
        """`name: .branchtargets a, b;` and similar tables."""
        name = self.take()
        self.expect(":")
        kind = self.take()
        location = SourceLocation(name.line, name.column)
        if kind.text == ".callprototype":
            self.skip_statement()
            self.declare(scope, name.text, Prototype(location), location)
        elif kind.text in (".branchtargets", ".calltargets"):
            names = self.listed(lambda: Name(self.token.text, self.location_of(self.kind("name", "a label"))))
            self.expect(";")
            self.declare(scope, name.text, Targets(names), location)
        else:
            self.next -= 1
            self.fail("a table of targets")

    # Instructions

    def _instruction(self, scope: Scope) -> Instruction:
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            token = self.kind("name", "a predicate")
            guard = Name(token.text, self.location_of(token))
        opcode = self.kind("name", "an instruction")
        if opcode.text[0] in "%$":
            self.next -= 1
            self.fail("an instruction")
        text, self.names = self.with_suffixes(opcode.text), scope
        read = self._call_operand if text.startswith("call") else self.simple_operand
        operands: list[Operand] = []
        if self.token.text != ";":
            operands = self.listed(read)
        self.expect(";")
        return Instruction(self.location_of(opcode), text, tuple(operands), guard, negated, scope)

    def _call_operand(self) -> Operand:
        """One operand of a call; a `(…)` list has the arguments."""
        if self.token.text == "(":
            location = self.location
            return Group(tuple(self.enclosed("()", self.simple_operand)), location)
        return self.simple_operand()


def _skip_line(reader: _Reader) -> None:
    """`.file` and `.loc` end at the end of their line."""
    line = reader.token.line
    while reader.token.line == line and reader.token.kind != "end":
        reader.take()


def _skip_section(reader: _Reader) -> None:
    while reader.token.text != "{":
        if reader.token.kind == "end":
            reader.fail("'{'")
        reader.take()
    while reader.take().text != "}":
        if reader.token.kind == "end":
            reader.fail("'}'")


def _alias(reader: _Reader) -> None:
    """`.alias name, other;`: another name for a function that is defined already."""
    reader.take()
    name = reader.kind("name", "a function").text
    reader.expect(",")
    location = reader.location
    other = reader.scope.find(reader.kind("name", "a function").text)
    reader.expect(";")
    if not isinstance(other, Function):
        raise PtxError("an alias needs a function", *location)
    reader.scope.names[name] = other


_SKIPPED: dict[str, Callable[[_Reader], None]] = {
    ".file": _skip_line,
    ".loc": _skip_line,
    ".section": _skip_section,
    ".pragma": _Reader.skip_statement,
    ".alias": _alias,
}
_TABLES = (".branchtargets", ".calltargets", ".callprototype")
_FUNCTION_DIRECTIVES = {
    *("reqntid", "maxntid", "minnctapersm", "maxnctapersm", "maxnreg", "noreturn", "explicitcluster"),
    *("reqnctapercluster", "maxclusterrank", "blocksareclusters", "abi_preserve", "abi_preserve_control"),
    *("attribute", "unique"),
}
