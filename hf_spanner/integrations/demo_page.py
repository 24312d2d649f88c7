"""Models in a browser, as `hf-spanner demo` shows them: entities drawn in a text, side by side, and as a table."""

import csv
from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from io import StringIO
from typing import Any, NamedTuple, get_args

from hf_spanner.analysis.entity_view import EntityView
from hf_spanner.core.field_rules import Overlap
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline

MAX_CHARACTERS = 20_000
COLUMNS = ("text", "label", "score", "start", "end", "model")
WIDTHS = ("150px", "70px", "75px", "65px", "65px", "220px")  # a telephone shows the first three
CUTS = {"own": "its own threshold", "threshold": "the score below", "min_precision": "the promised precision below"}
EXAMPLE = "The University of New York opened a laboratory in the north of Oslo, Norway, last year."


class Found(NamedTuple):
    """What is shown of the entities of some models."""

    pictures: list[str]  # one for each model, HTML
    table: list[list[Any]]  # of all models, a value for each of `COLUMNS`
    link: str  # HTML that saves the table


class Demo:
    """Entities of a text by one or several models, to be shown.

    Args:
        pipelines: By the names that are shown.
    """

    def __init__(self, pipelines: Mapping[str, SpanNERPipeline]) -> None:
        self.pipelines = pipelines
        configs = [ner.model.config for ner in pipelines.values()]
        self.labels = list(dict.fromkeys(label for config in configs for label in config.label2id))
        self.has_promises = any("promises" in (config.calibration or {}) for config in configs)

    def found(self, text: str, overlap: Overlap, cut: str, threshold: float, precision: float) -> Found:
        """What is shown of a text's entities; what is refused is said in place of the pictures.

        Args:
            text: Of at most `MAX_CHARACTERS`.
            overlap: Which overlaps the entities may have.
            cut: A name in `CUTS`.
            threshold: Lowest score, where this is the cut.
            precision: Promised precision, where that is.
        """
        if len(text) > MAX_CHARACTERS:
            problem = refusal(f"text must have at most {MAX_CHARACTERS:,} characters, got {len(text):,}")
            return Found([problem] * len(self.pipelines), [], saving_link([]))
        values = {"threshold": threshold, "min_precision": precision}
        settings: dict[str, Any] = {"overlap": overlap} | {name: value for name, value in values.items() if name == cut}
        pictures, table = [], []
        for name, ner in self.pipelines.items():
            try:
                entities = ner(text, **settings)
            except ValueError as error:
                pictures.append(refusal(str(error)))
                continue
            pictures.append(EntityView(text, entities, labels=self.labels).to_html())
            table += [
                [
                    entity["word"],
                    entity["entity_group"],
                    round(entity["score"], 4),
                    entity["start"],
                    entity["end"],
                    name,
                ]
                for entity in entities
            ]
        return Found(pictures, table, saving_link(table))


def refusal(problem: str) -> str:
    """What is wrong, in HTML."""
    return f'<p role="alert">{escape(problem)}</p>'


def saving_link(table: Iterable[Iterable[Any]]) -> str:
    """A link that saves a table as CSV; it holds the file, so that none is left on the server."""
    file = StringIO()
    csv.writer(file).writerows([COLUMNS, *table])
    content = b64encode(file.getvalue().encode("utf-8", "replace")).decode("ascii")
    return f'<a download="entities.csv" href="data:text/csv;charset=utf-8;base64,{content}">Save the table as CSV</a>'


def make_page(pipelines: Mapping[str, SpanNERPipeline]) -> Any:
    """The page as Gradio's `Blocks`, to be launched.

    Args:
        pipelines: By the names that are shown; the settings of the first are where the page begins.
    """
    import gradio  # type: ignore[import-not-found]  # an extra of its own

    demo = Demo(pipelines)
    with gradio.Blocks(title="hf_spanner", analytics_enabled=False) as page:
        text, overlap, cut, threshold, precision = choices(demo)
        button = gradio.Button("Find entities", variant="primary")
        with gradio.Row():
            pictures = []
            for name in pipelines:
                with gradio.Column(min_width=300):
                    gradio.HTML(f"<b>{escape(name)}</b>")
                    pictures.append(gradio.HTML(container=True))
        table = gradio.Dataframe(
            headers=list(COLUMNS), column_widths=list(WIDTHS), label="Entities", interactive=False, wrap=True
        )
        link = gradio.HTML()

        def shown(*values: Any) -> list[Any]:
            found = demo.found(*values)
            return [*found.pictures, found.table, found.link]

        gradio.on(
            [page.load, button.click, text.submit, overlap.change, cut.change, threshold.release, precision.release],
            shown,
            [text, overlap, cut, threshold, precision],
            [*pictures, table, link],
            api_name="entities",
            show_progress="hidden",
            trigger_mode="always_last",
        )
    return page


def choices(demo: Demo) -> list[Any]:
    """The fields for what `Demo.found` takes, in its order; of the two sliders the one that acts is shown."""
    import gradio  # type: ignore[import-not-found]  # an extra of its own

    first = next(iter(demo.pipelines.values()))
    own_overlap = first.model.decoding(first.settings)["overlap"]
    cuts = [(words, name) for name, words in CUTS.items() if name != "min_precision" or demo.has_promises]
    text = gradio.Textbox(EXAMPLE, label="Text", lines=3)
    with gradio.Row():
        overlap = gradio.Radio(get_args(Overlap), value=own_overlap, label="Entities that overlap")
        cut = gradio.Radio(cuts, value="own", label="A model gives out what reaches")
    threshold = gradio.Slider(0, 1, value=0.5, step=0.01, label="Score of at least", visible=False)
    precision = gradio.Slider(0.5, 1, value=0.9, step=0.01, label="Promised precision", visible=False)
    cut.change(
        lambda name: [gradio.update(visible=name == "threshold"), gradio.update(visible=name == "min_precision")],
        cut,
        [threshold, precision],
        show_progress="hidden",
    )
    return [text, overlap, cut, threshold, precision]
