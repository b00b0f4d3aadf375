"""The tables of docs/predict.md."""

import pytest

from weft.errors import WeftError
from weft.tools import predict_docs

PAGE = predict_docs.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("section", ["published", "targets", "constants"])
def test_the_page_is_up_to_date(section: str) -> None:
    assert predict_docs.page(PAGE, section) == PAGE


def test_weft_is_predicted_to_reach_97_percent_of_cublas() -> None:
    reached = {t.kind: t.predicted[1].tflops / t.tflops for t in predict_docs.TARGETS if t.predicted}
    assert reached and min(reached.values()) >= 0.97


@pytest.mark.slow
def test_the_table_of_own_measurements_is_up_to_date() -> None:
    assert predict_docs.page(PAGE, "measured") == PAGE


def test_every_exception_is_explained_on_the_page() -> None:
    for point in predict_docs.points():
        if point.exception:
            assert f"{point.kind}, {point.shape}: {point.exception}." in PAGE


def test_a_page_without_the_enclosing_lines_is_refused() -> None:
    with pytest.raises(WeftError, match="the page must have lines that enclose 'published'"):
        predict_docs.page("# Predicted times\n", "published")
