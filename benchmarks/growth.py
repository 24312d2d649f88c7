"""How the cost of a method's head grows with words, types or a field of its configuration; the encoder is left out.

    python benchmarks/growth.py --method locate_and_label --words 64 128 256 512 --config lstm_size=400 head_size=256
    python benchmarks/growth.py --method bopn --words 128 --field max_offset 0 1 2 3

Weights are random, and so are the tokens of the one sentence, one for each word, with an entity every ten words. That
they are random changes no cost but that of decoding, which grows with the spans that a model believes in.
"""

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from speed import seconds
from subject import SEED, parsed_fields
from transformers import BertConfig, set_seed

from hf_spanner import METHODS, SpanNERModel
from hf_spanner.training.recipe import plain_yaml

VOCABULARY = 1_000


def main() -> None:
    """Print a row for each combination of words, labels and values of the field."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=METHODS)
    parser.add_argument("--words", nargs="+", type=int, default=[64, 128, 256, 512])
    parser.add_argument("--labels", nargs="+", type=int, default=[4])
    parser.add_argument("--field", nargs="+", default=[], metavar="NAME VALUE", help="a field and its values")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="fields of the configuration")
    parser.add_argument("--hidden-size", type=int, default=384, help="width of the encoder")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    name, *values = arguments.field or ["-", "-"]
    fixed = parsed_fields(arguments.config)
    print(f"{'words':>6}{'labels':>7}{name:>16}{'inference, ms':>15}{'training, ms':>14}")
    for num_words in arguments.words:
        for num_labels in arguments.labels:
            for value in values:
                fields = fixed if value == "-" else {**fixed, name: plain_yaml(value, name)}
                model = random_model(arguments, num_words, num_labels, fields)
                inference, training = head_times(model, num_words, num_labels, arguments.repeats)
                print(f"{num_words:>6}{num_labels:>7}{value:>16}{inference:>15.2f}{training:>14.2f}")


def random_model(
    arguments: argparse.Namespace, num_words: int, num_labels: int, fields: dict[str, Any]
) -> SpanNERModel:
    """The method on an encoder of one layer that takes a sentence of so many words whole."""
    set_seed(SEED)
    encoder = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=arguments.hidden_size,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=arguments.hidden_size,
        max_position_embeddings=2 * (num_words + num_labels),
    )
    model_class = METHODS[arguments.method]
    labels = {place: f"L{place}" for place in range(num_labels)}
    return model_class(model_class.config_class(encoder_config=encoder, id2label=labels, **fields))


def head_times(model: SpanNERModel, num_words: int, num_labels: int, repeats: int) -> tuple[float, float]:
    """Milliseconds after the encoder: scores and decoding at inference; scores, loss and gradients in training."""
    inputs = {
        "input_ids": torch.randint(VOCABULARY, (1, num_words)),
        "attention_mask": torch.ones(1, num_words, dtype=torch.long),
        "word_index": torch.arange(1, num_words + 1)[None],
        "word_mask": torch.ones(1, num_words, dtype=torch.bool),
    }
    entities = [(start, start + 2, start // 10 % num_labels) for start in range(0, num_words - 1, 10)]
    labels = torch.tensor([entities])
    decoding = model.decoding()
    with torch.no_grad():
        words = model.encode(**inputs).last_hidden_state

    def infer() -> None:
        with torch.inference_mode():
            output = model.score_spans(words, inputs["word_mask"], None, decoding)
            model.candidate_spans(output, decoding)

    def train() -> None:
        given = words.clone().requires_grad_()
        output = model.score_spans(given, inputs["word_mask"], labels, decoding)
        model.compute_loss(output, labels)[0].sum().backward()
        model.zero_grad()

    return milliseconds(model.eval, infer, repeats), milliseconds(model.train, train, repeats)


def milliseconds(prepare: Callable[[], Any], run: Callable[[], None], repeats: int) -> float:
    """Median time of a run, after one that does not count."""
    prepare()
    run()
    return median(seconds(run) for _ in range(repeats)) * 1_000


if __name__ == "__main__":
    main()
