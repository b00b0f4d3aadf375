"""Builds SVG drawings."""

from xml.etree import ElementTree


class Svg:
    """An SVG drawing. Coordinates are in pixels from the upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
        style = {"font-family": "sans-serif", "font-size": "11", "fill": "#212529"}
        self.root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, **style})
        self.add("rect", width=width, height=height, fill="white")

    def add(self, tag: str, text: str = "", title: str = "", **attributes: object) -> ElementTree.Element:
        """Adds an element and returns it. `title` is its tooltip. In an attribute's name, `_` becomes `-`,
        and a trailing `_` is dropped.
        """
        named = {
            name.rstrip("_").replace("_", "-"): f"{value:.5g}" if isinstance(value, float) else str(value)
            for name, value in attributes.items()
        }
        element = ElementTree.SubElement(self.root, tag, named)
        element.text = text or None
        if title:
            ElementTree.SubElement(element, "title").text = title
        return element

    def line(self, x1: float, y1: float, x2: float, y2: float, color: str) -> None:
        """A thin line."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color)

    def _repr_svg_(self) -> str:
        """For notebooks."""
        return self.text()

    def text(self) -> str:
        """The contents of the SVG file."""
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root, "unicode") + "\n"
