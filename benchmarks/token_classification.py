"""The baseline beside every result: `AutoModelForTokenClassification` with IOB2 tags, at the same budget."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.optim import AdamW
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

from hf_spanner.data.tags import spans_to_tags, tags_to_spans

IGNORED = -100


def train_baseline(
    encoder: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    arguments: TrainingArguments,
    head_learning_rate: float | None = None,
) -> tuple[Any, Any]:
    """A token classifier trained on flat rows; the first piece of a word carries its tag.

    Args:
        encoder: As `from_pretrained` takes it.
        rows: Rows with `tokens` and `entities`, none of which overlap.
        labels: Labels of the entities.
        arguments: Training arguments; their learning rate is the encoder's.
        head_learning_rate: Of the linear layer; None takes the encoder's.

    Returns:
        Model and tokenizer.
    """
    tags = ["O"] + [f"{prefix}-{label}" for label in labels for prefix in "BI"]
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForTokenClassification.from_pretrained(
        encoder, id2label=dict(enumerate(tags)), label2id={tag: index for index, tag in enumerate(tags)}
    )
    head = {"params": model.classifier.parameters(), "lr": head_learning_rate or arguments.learning_rate}
    optimizer = AdamW(
        [{"params": model.base_model.parameters()}, head],
        lr=arguments.learning_rate,
        betas=(arguments.adam_beta1, arguments.adam_beta2),
        weight_decay=arguments.weight_decay,
    )
    Trainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list([_tagged(row, tokenizer, model.config.label2id) for row in rows]),
        data_collator=DataCollatorForTokenClassification(tokenizer),
        optimizers=(optimizer if head_learning_rate else None, None),
    ).train()
    return model, tokenizer


def predict_baseline(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], batch_size: int = 32) -> list:
    """Entities of each row as dicts; tags are read as by conlleval, a score is the mean probability of its tags."""
    model.eval()
    predicted: list[list[dict[str, Any]]] = [[] for _ in rows]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]["tokens"]))
    for first in range(0, len(rows), batch_size):
        batch = order[first : first + batch_size]
        inputs = tokenized_words([rows[place]["tokens"] for place in batch], tokenizer)
        num_words = [len(rows[place]["tokens"]) for place in batch]
        for place, entities in zip(batch, classified(model, inputs, num_words), strict=True):
            predicted[place] = entities
    return predicted


def tokenized_words(words: Sequence, tokenizer: Any) -> Any:
    """A padded batch of sentences, given as words."""
    return _tokens(words, tokenizer, return_tensors="pt", padding=True)


@torch.inference_mode()
def classified(model: Any, inputs: Any, num_words: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Entities of the sentences of a padded batch."""
    best = model(**inputs).logits.softmax(dim=-1).max(dim=-1)
    return [
        _entities(inputs.word_ids(row), best, row, count, model.config.id2label) for row, count in enumerate(num_words)
    ]


def _tokens(words: Sequence, tokenizer: Any, **arguments: Any) -> Any:
    return tokenizer(words, is_split_into_words=True, truncation=True, max_length=512, **arguments)


def _tagged(row: Mapping[str, Any], tokenizer: Any, tag2id: Mapping[str, int]) -> dict[str, list[int]]:
    spans = [(entity["start"], entity["end"], entity["label"]) for entity in row["entities"]]
    tags = spans_to_tags(spans, len(row["tokens"]), scheme="IOB2")
    encoding = _tokens(row["tokens"], tokenizer)
    labels, last = [], None
    for word in encoding.word_ids():
        labels.append(IGNORED if word is None or word == last else tag2id[tags[word]])
        last = word
    return {"input_ids": encoding["input_ids"], "attention_mask": encoding["attention_mask"], "labels": labels}


def _entities(
    word_ids: Sequence[int | None], best: Any, row: int, num_words: int, id2tag: Mapping[int, str]
) -> list[dict[str, Any]]:
    tags, scores = ["O"] * num_words, [1.0] * num_words
    for token in reversed(range(len(word_ids))):
        word = word_ids[token]
        if word is not None:
            tags[word], scores[word] = id2tag[int(best.indices[row, token])], float(best.values[row, token])
    return [
        {"start": start, "end": end, "label": label, "score": sum(scores[start:end]) / (end - start)}
        for start, end, label in tags_to_spans(tags, scheme="IOB2", policy="repair")
    ]
