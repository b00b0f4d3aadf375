"""Documents as editors hold them between keystrokes, given to the language server's checks and features.

An input begins with a comment: the kind of the document, and a number from which offsets follow. Texts are
those of the other kinds, cut off or with parts missing, some with CRLF, emoji or other separators.
"""

import functools
import random

import mlir_corpus
import mutated_mlir
import mutated_ptx

SEED = 20261125
_ODD = (
    "\r\n",
    "\r",
    "\u2028",
    "\x0c",
    "😀",
    "é",
    '"',
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "%",
    "//",
    "/*",
    ";",
    "=",
)


# MLIR allocates without limits for some mistakes, and nests calls as deep as a text is nested.
_TOLD = ("the check ran out of memory", "the text is nested too deeply to be checked")


def begin() -> None:
    """Imports what the attempts need."""
    mutated_ptx.begin()
    from weft.tools.language_server import judging, mlir_checks  # noqa: F401

    _facts()


def make(number: int) -> str:
    """The document of a number."""
    chance = random.Random(SEED * 1_000_003 + number)
    kind = chance.choice(("mlir", "mlir", "ptx"))
    if kind == "ptx":
        text = mutated_ptx.make(number).partition("\n")[2]
        text = text if len(text) < 20_000 else text[: chance.randrange(20_000)]
    elif chance.random() < 0.3:
        text = chance.choice(mlir_corpus.pieces(chance.choice(mlir_corpus.KINDS))).text
    else:
        text = mutated_mlir.make(number).partition("\n")[2]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        text = _typed(text, chance)
    return f"// {kind} {chance.randrange(1 << 20)}\n{text}"


def _typed(text: str, chance: random.Random) -> str:
    """The text in the middle of an edit."""
    at = chance.randrange(len(text) + 1)
    change = chance.randrange(4)
    if change == 0:
        return text[:at]
    if change == 1:
        return text[:at] + text[at + chance.randrange(1, 40) :]
    if change == 2:
        return text[:at] + chance.choice(_ODD) + text[at:]
    return text.replace("\n", "\r\n")


def attempt(text: str) -> str:
    """Checks a document, asks for every feature at some offsets, and applies a fix. Returns the outcome."""
    from weft.tools.language_server import judging
    from weft.tools.language_server.text import Text

    head, _, text = text.partition("\n")
    _, kind, number = head.split()
    chance = random.Random(int(number))
    chip = chance.choice((None, "sm_80", "sm_90a", "sm_100a"))
    answer = judging._answer(judging.request(kind, text, chip))
    if failure := answer.get("failure"):
        assert failure in _TOLD, failure
        return failure
    problems = answer["problems"]
    places = Text(text)
    for each in problems:
        assert 0 <= each["start"] <= each["end"] <= len(text), each
        assert places.position(each["start"]) <= places.position(each["end"])
        for fix in each["fixes"]:
            assert fix["title"] and fix["edits"], fix
            assert all(0 <= edit["start"] <= edit["end"] <= len(text) for edit in fix["edits"])
    for _ in range(3):
        _features(kind, text, chance.randrange(len(text) + 1))
    fixable = [(each, fix) for each in problems for fix in each["fixes"]]
    if not fixable:
        return f"{kind} with problems" if problems else f"{kind} without a problem"
    _apply(kind, text, *chance.choice(fixable))
    return f"{kind} with a fix"


def after_death(text: str) -> str:
    """MLIR crashes on some mistakes in upstream's operations. The server reports the crash and continues."""
    return "MLIR crashed"


def _features(kind: str, text: str, offset: int) -> None:
    from weft.tools.language_server import mlir_features, mlir_names, ptx_features

    if kind == "ptx":
        ptx_features.hover(text, offset, None, {})
        ptx_features.completions(text, offset, None, {})
        ptx_features.definition(text, offset)
        ptx_features.references(text, offset)
        ptx_features.symbols(text)
        return
    facts = _facts()
    mlir_features.hover(text, offset, None, facts)
    mlir_features.completions(text, offset, None, facts)
    names = mlir_names.names(text)
    names.definition(offset)
    names.references(offset)
    names.symbols()


@functools.cache
def _facts() -> dict:
    from weft.tools.language_server.catalog import OpFacts, collect

    return {str(each["name"]): OpFacts.of_plain(each) for each in collect()}


def _apply(kind: str, text: str, problem: dict, fix: dict) -> None:
    """Applies a fix, and checks that its problem is gone where it was."""
    from weft.tools.language_server import judging

    edits = sorted(fix["edits"], key=lambda each: -each["start"])
    fixed = text
    for edit in edits:
        fixed = fixed[: edit["start"]] + edit["text"] + fixed[edit["end"] :]
    assert fixed != text
    assert "failure" not in judging._answer(judging.request(kind, fixed, None))
