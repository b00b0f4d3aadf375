"""The tables of docs/predict.md."""

from pathlib import Path

import predict_docs
import pytest

from weft.errors import WeftError

SECTIONS = [(path, name) for path, names in predict_docs.pages(False).items() for name in names]


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("path", "section"), SECTIONS, ids=[name for _, name in SECTIONS])
def test_the_pages_are_up_to_date(path: Path, section: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert predict_docs.page(text, section) == text


def test_each_section_has_a_page() -> None:
    assert {name for names in predict_docs.pages(True).values() for name in names} == {*predict_docs.SECTIONS}


def test_weft_is_predicted_to_reach_97_percent_of_cublas() -> None:
    reached = {t.kind: t.predicted[1].tflops / t.tflops for t in predict_docs.TARGETS if t.predicted}
    assert set(reached) == {"bf16", "mxfp8", "nvfp4"} and min(reached.values()) >= 0.97


@pytest.mark.slow
def test_the_table_of_own_measurements_is_up_to_date() -> None:
    text = predict_docs.PAGE.read_text(encoding="utf-8")
    assert predict_docs.page(text, "measured") == text


def test_every_exception_is_explained_on_the_page() -> None:
    text = predict_docs.PUBLISHED_PAGE.read_text(encoding="utf-8")
    for point in predict_docs.points():
        if point.exception:
            assert f"{point.kind}, {point.shape}: {point.exception}." in text


def test_a_page_without_the_enclosing_lines_is_refused() -> None:
    with pytest.raises(WeftError, match="the page must have lines that enclose 'published'"):
        predict_docs.page("# Predicted times\n", "published")
