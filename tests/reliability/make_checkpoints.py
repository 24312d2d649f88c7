"""Write the tiny checkpoints of this version, which later versions must load and answer as this one does.

python tests/reliability/make_checkpoints.py      after a new method, or when the version's format of checkpoints is new

Each method that has none gets `tests/fixtures/checkpoints/<method>-<version>/` with a random model, its tokenizer and
`answers.json.gz`; what is there already stays as it is. A checkpoint's source files are left out: installed classes
read these folders.
"""

import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from method_facts import facts_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

from hf_spanner import METHODS, SpanNERPipeline
from hf_spanner.core.configuration_span_ner import VERSION

FOLDER = Path(__file__).parents[1] / "fixtures" / "checkpoints"
LABELS = ("LOC", "ORG", "PER")
TEXTS = [
    "Ana met Bo in Oslo .",
    "",
    "Mira Stone, who works for the Bank of Oslo, visited Zo\u00eb's sister.",
    "a bb ccc " * 12,
]


def main() -> None:
    """Write those checkpoints of this version that are not there yet."""
    torch.set_num_threads(1)
    for method in METHODS:
        folder = FOLDER / f"{method}-{VERSION}"
        if folder.exists():
            continue
        write_checkpoint(method, folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        sys.stdout.write(f"{folder.name}: {size:,} bytes\n")


def write_checkpoint(method: str, folder: Path) -> None:
    """Write a random model that finds entities in the texts, its tokenizer, and what it finds."""
    facts, tokenizer = facts_of(method), character_tokenizer()
    set_seed(1)
    with TemporaryDirectory() as encoder:
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=66,
        )
        BertModel(config).save_pretrained(encoder)
        model = METHODS[method].from_encoder(encoder, labels=LABELS, lstm_size=8, **facts.checkpoint).eval()
    model.get_parameter(facts.none_bias).data[-1] = -5.0
    tagger = SpanNERPipeline(model=model, tokenizer=tokenizer)
    answers = [{"text": text, "entities": tagger(text)} for text in TEXTS]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*.py"):
        path.unlink()
    (folder / "answers.json.gz").write_bytes(gzip.compress(json.dumps(answers).encode(), mtime=0))


def character_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of letters and their continuations, which is all that a random model needs."""
    letters = "abcdefghijklmnopqrstuvwxyz.,'"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


if __name__ == "__main__":
    main()
