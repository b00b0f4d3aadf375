"""A hook of MkDocs: colors for MLIR, which Pygments doesn't know, and for commands with their output."""

from typing import Any, ClassVar

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer, RegexLexer, bygroups, using
from pygments.lexers.shell import BashLexer
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)


class MlirLexer(RegexLexer):
    """MLIR's text, in the generic and in custom forms."""

    name = "MLIR"
    tokens: ClassVar = {
        "root": [
            (r"\s+", Whitespace),
            (r"//.*", Comment.Single),
            (r'"([a-z_]\w*\.[\w.]+)"(?=\()', Keyword),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w.$-]+(?:[:#]\d+)?", Name.Variable),
            (r"@[\w.$-]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"[#!][\w.]+", Name.Class),
            (r"(?:(?:\d+|\?)x)+", Number),
            (r"(?:index|memref|vector|tensor|array|none|[su]?i\d+|bf16|tf32|f\d+\w*)\b", Keyword.Type),
            (r"[a-z_]\w*(?:\.\w+)+", Keyword),
            (
                r"(?:module|attributes|ins|outs|true|false|unit|loc|kernel|to|step|affine_map)\b",
                Keyword.Pseudo,
            ),
            (r"-?\d+(?:\.\d*(?:e[+-]?\d+)?)?|0x[0-9a-fA-F]+", Number),
            (r"->|[=:*+-]", Operator),
            (r"[\w$]+", Text),
            (r"[(){}\[\]<>,?]", Punctuation),
            (r".", Text),
        ]
    }


class ConsoleLexer(RegexLexer):
    """Commands after `$`, and what they print. Pygments' own sees a command in `%0 = …`, too."""

    name = "Commands and output"
    tokens: ClassVar = {
        "root": [
            (r"(\$ )(.*\n?)", bygroups(Generic.Prompt, using(BashLexer))),
            (r".+\n?|\n", Generic.Output),
        ]
    }


LEXERS: dict[str, type[Lexer]] = {"mlir": MlirLexer, "console": ConsoleLexer}


def colored(source: str, language: str, *_: Any, **__: Any) -> str:
    """A block of code in HTML, as superfences wants it from a custom fence."""
    return highlight(source, LEXERS[language](), HtmlFormatter(cssclass="highlight", wrapcode=True))


def on_config(config: Any) -> Any:
    """Has these blocks colored here."""
    fences = [{"name": name, "class": name, "format": colored} for name in LEXERS]
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": fences}
    return config
