"""Find entities over HTTP, with a model or an exported folder, until a signal ends the service.

hf-spanner serve MODEL --port 8000

curl 127.0.0.1:8000/entities -H "Content-Type: application/json" -d '{"inputs": "Ana met Bo in Oslo."}'

A request holds `inputs`, a text or a list of texts, and `parameters`, as in a pipeline's call. Requests that wait are
read together. `/docs` shows the interface, `/openapi.json` its schema, `/health` and `/ready` the state, `/metrics`
numbers for Prometheus. Settings of inference given here hold where a request names none. There is no encryption and no
password: to other machines show it behind a proxy that has them.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Any

from transformers import pipeline

from hf_spanner.commands.options import (
    add_decoding_options,
    add_trust_option,
    at_least_one,
    command_parser,
    given_decoding,
    trust_encoders,
)

# The model's thread leaves Python at each operation and waits this long to come back while requests are read; with
# Python's own 0.005 s a small model spends half of its time so.
SWITCH_SECONDS = 0.0005
BATCH_SIZE = 8  # of the texts that wait; on a CPU larger ones lose more to padding than they gain
LIMITS = {  # fields of `Limits`
    "max_bytes": "most bytes of a request",
    "max_texts": "most texts of a request",
    "max_characters": "most characters of a request's texts",
    "max_waiting": "most requests that wait; others are refused",
    "max_seconds": "seconds after which a request that still waits is refused",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; requests that were taken are answered before the end."""
    given = parsed_arguments(arguments)
    import uvicorn

    from hf_spanner.integrations.serving import Limits, make_app

    trust_encoders(given, given.model)
    task: Any = "span-ner"  # the library's type hints know only its own tasks
    ner: Any = pipeline(task, model=given.model, batch_size=given.batch_size, **given_decoding(given))
    limits = Limits(**{name: value for name in LIMITS if (value := vars(given)[name]) is not None})
    sys.setswitchinterval(SWITCH_SECONDS)
    graceful = math.ceil(limits.max_seconds)
    uvicorn.run(make_app(ner, limits), host=given.host, port=given.port, timeout_graceful_shutdown=graceful)


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line; decoding parameters are among them only if they were given."""
    parser = command_parser("serve", __doc__)
    parser.add_argument("model", help="folder or Hub name of a saved or exported model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 for all")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--batch-size", type=at_least_one, default=BATCH_SIZE, help="texts in one batch of the model")
    for name, description in LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=at_least_one, help=description)
    add_trust_option(parser)
    add_decoding_options(parser)
    return parser.parse_args(arguments)
