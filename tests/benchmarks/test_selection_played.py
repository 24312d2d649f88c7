"""The page and the picture of played labelling against the numbers that its script kept."""

from collections.abc import Callable
from types import ModuleType


def test_page_and_picture_are_of_the_kept_numbers(benchmark_script: Callable[[str], ModuleType]) -> None:
    selection = benchmark_script("selection")
    results = selection.kept_results()
    assert selection.PICTURE.read_text(encoding="utf-8") == selection.picture(results)
    page = (selection.ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    assert "\n".join(selection.table(results)) in page
