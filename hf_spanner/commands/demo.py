"""Show models in a browser: entities drawn in a text, nested ones under one another, two models side by side.

hf-spanner demo MODEL
hf-spanner demo MODEL OTHER --port 7860

The page is at http://127.0.0.1:7860. The colour of an entity is deeper for a higher score; overlap, threshold and
promised precision are chosen on the page, and the table of entities can be saved. Settings of inference given here hold
where the page has no choice.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import pipeline

from hf_spanner.commands.options import (
    add_decoding_options,
    add_trust_option,
    command_parser,
    given_decoding,
    trust_encoders,
)
from hf_spanner.integrations.demo_page import make_page


def main(arguments: Sequence[str] | None = None) -> None:
    """Show the page until the process is interrupted."""
    given = parsed_arguments(arguments)
    import_module("gradio")  # an extra: where it is missing, that is said before models are loaded
    trust_encoders(given, *given.models)
    task: Any = "span-ner"  # the library's type hints know only its own tasks
    pipelines: dict[str, Any] = {
        name: pipeline(task, model=model, **given_decoding(given))
        for name, model in zip(shown_names(given.models), given.models, strict=True)
    }
    make_page(pipelines).launch(server_name=given.host, server_port=given.port, share=False)


def shown_names(models: Sequence[str]) -> list[str]:
    """The last parts of the names of some models, or the whole names where these are not enough to tell them apart.

    Raises:
        ValueError: If a model is named twice.
    """
    if len(set(models)) < len(models):
        raise ValueError(f"models must be different, got {', '.join(models)}")
    names = [Path(model).name for model in models]
    return names if len(set(names)) == len(names) else list(models)


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("demo", __doc__)
    parser.add_argument("models", nargs="+", help="folders or Hub names of saved or exported models, side by side")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 for all")
    parser.add_argument("--port", type=int, default=7860)
    add_trust_option(parser)
    add_decoding_options(parser)
    return parser.parse_intermixed_args(arguments)
