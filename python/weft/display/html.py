"""Builds the small pages by which notebooks show objects. They take the notebook's colors, light or dark."""

import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

_LINE = "1px solid rgba(128, 128, 128, 0.45)"
_CELL = f"text-align: left; vertical-align: top; padding: 1px 8px; border: {_LINE}; background: none"
_TEXT = "font-family: ui-monospace, monospace; font-size: 12px; line-height: 1.35"
_PRE = f"{_TEXT}; max-height: 24em; overflow: auto; margin: 4px 0; padding: 4px 8px; border: {_LINE}"
_PLAIN = "; color: inherit; background: none; white-space: pre"
_MOST_LINES = 200
_MOST_ROWS = 40
_UNWRITABLE = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


class Html:
    """A page of a title, tables, drawings and text. All text is escaped."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        style = "font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.4; color: inherit"
        self._root = ElementTree.Element("div", {"style": style})
        line = ElementTree.SubElement(self._root, "div")
        ElementTree.SubElement(line, "strong").text = _printable(title)
        if subtitle:
            ElementTree.SubElement(line, "span", {"style": "opacity: 0.75"}).text = f" {_printable(subtitle)}"

    def facts(self, facts: Iterable[tuple[str, object]]) -> None:
        """A table of names and values."""
        table = self._table()
        for name, value in facts:
            row = ElementTree.SubElement(table, "tr")
            ElementTree.SubElement(row, "th", {"style": _CELL}).text = _printable(name)
            ElementTree.SubElement(row, "td", {"style": _CELL}).text = _printable(str(value))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table with a heading for each column. Of many rows, it shows the first."""
        table = self._table()
        head = ElementTree.SubElement(table, "tr")
        for name in columns:
            ElementTree.SubElement(head, "th", {"style": _CELL}).text = _printable(name)
        for values in rows[:_MOST_ROWS]:
            row = ElementTree.SubElement(table, "tr")
            for value in values:
                ElementTree.SubElement(row, "td", {"style": _CELL}).text = _printable(str(value))
        if len(rows) > _MOST_ROWS:
            self.note(f"and {len(rows) - _MOST_ROWS} more")

    def note(self, text: str) -> None:
        """A line of text."""
        ElementTree.SubElement(self._root, "div").text = _printable(text)

    def code(self, text: str, summary: str = "") -> None:
        """Code, under a line that opens it if there is a summary. Of a long text, it has the first lines."""
        parent = self._root
        if summary:
            parent = ElementTree.SubElement(self._root, "details")
            ElementTree.SubElement(parent, "summary").text = _printable(summary)
        lines = text.splitlines()
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"… {len(lines) - _MOST_LINES} more lines"]
        pre = ElementTree.SubElement(parent, "pre", {"style": _PRE + _PLAIN})
        pre.text = _printable("\n".join(lines))

    def drawing(self, root: ElementTree.Element) -> None:
        """A drawing: the root of a `weft.display.svg.Svg`."""
        holder = ElementTree.SubElement(self._root, "div", {"style": "margin: 6px 0"})
        holder.append(root)

    def text(self) -> str:
        """The page."""
        # HTML reads <td/> as the beginning of a cell.
        return ElementTree.tostring(self._root, "unicode", short_empty_elements=False)

    def _table(self) -> ElementTree.Element:
        style = "border-collapse: collapse; margin: 4px 0; font-size: 13px; color: inherit"
        return ElementTree.SubElement(self._root, "table", {"style": style})


def _printable(text: str) -> str:
    """The text with replacements for characters that XML has no way to write."""
    return _UNWRITABLE.sub("\ufffd", text)
