"""What all tests share: tiny random encoders, three tokenizers, rows, a model factory and the trouble cases."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar

from hf_spanner import METHODS, SpanNERModel

torch.set_num_threads(1)
disable_progress_bar()

CASES = Path(__file__).parent / "fixtures" / "cases" / "cases.jsonl"
LABELS = ("LOC", "ORG", "PER")
CORPUS = [
    "Ana met Bo in Oslo and then they walked all the way to Lake Tarn before it rained .",
    "The University of New York opened a laboratory in the north of the city last year .",
    "Mira Stone , who works for the Bank of Oslo , visited Bo Li 's sister on Monday morning .",
    "a aa aaa b bb c the fill filler fillers word words running walking unbelievable 1 2 3 10 2024",
    "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 . , ; : ! ? ' \" ( ) [ ] < > / -",
]
SMALL = {"lstm_size": 16}
SMALL_BY_METHOD = {
    "boundary_smoothing": {"affine_size": 16, "width_embedding_size": 4, "max_width": 8},
    "bopn": {"biaffine_size": 16, "region_embedding_size": 4},
    "diffusion_ner": {
        "lstm_layers": 0,
        "num_train_spans": 12,
        "num_spans": 12,
        "num_decoder_layers": 1,
        "feedforward_size": 32,
        "boundary_loss": "nll",  # learns soonest
    },
    "locate_and_label": {
        "head_size": 16,
        "negatives_per_positive": 1_000,  # all: a sample would depend on how a batch is cut
        "min_negatives": 1_000,
        "nms_threshold": 0.0,
    },
}


def wordpiece_tokenizer() -> PreTrainedTokenizerFast:
    """Like BERT's: lower case, accents stripped, unknown symbols one piece."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def bpe_tokenizer() -> PreTrainedTokenizerFast:
    """Like RoBERTa's: bytes, the blank before a word part of its first piece."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, add_prefix_space=True, **ROBERTA_TOKENS)


def unigram_tokenizer() -> PreTrainedTokenizerFast:
    """Like XLM-RoBERTa's: a mark for the blank before a word, compatibility forms normalised."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ROBERTA_TOKENS)


ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def save_encoder(folder: Path, tokenizer: PreTrainedTokenizerFast, config: PreTrainedConfig) -> Path:
    """A random encoder and its tokenizer, in one folder."""
    set_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By kind of tokenizer, a folder with a tiny random encoder (2 layers, width 32) and that tokenizer."""
    root = tmp_path_factory.mktemp("encoders")
    wordpiece, bpe, unigram = wordpiece_tokenizer(), bpe_tokenizer(), unigram_tokenizer()
    roberta = {"max_position_embeddings": 514, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **SIZES}
    return {
        "wordpiece": save_encoder(root / "bert", wordpiece, BertConfig(vocab_size=len(wordpiece), **SIZES)),
        "bpe": save_encoder(root / "roberta", bpe, RobertaConfig(vocab_size=len(bpe), **roberta)),
        "unigram": save_encoder(root / "xlmr", unigram, XLMRobertaConfig(vocab_size=len(unigram), **roberta)),
    }


@pytest.fixture(scope="session")
def tiny_encoder(encoder_folders: dict[str, Path]) -> Path:
    """Folder of a tiny random BERT encoder with its WordPiece tokenizer."""
    return encoder_folders["wordpiece"]


@pytest.fixture
def tokenizers_by_kind(encoder_folders: dict[str, Path]) -> dict[str, PreTrainedTokenizerBase]:
    """Freshly loaded tokenizers: `wordpiece`, `bpe` (byte-level) and `unigram`."""
    return {kind: AutoTokenizer.from_pretrained(folder) for kind, folder in encoder_folders.items()}


@pytest.fixture
def tokenizer(tiny_encoder: Path) -> PreTrainedTokenizerBase:
    """The WordPiece tokenizer of `tiny_encoder`, freshly loaded."""
    return AutoTokenizer.from_pretrained(tiny_encoder)


@pytest.fixture(scope="session")
def tiny_model(encoder_folders: dict[str, Path]) -> Callable[..., SpanNERModel]:
    """Makes a seeded tiny model in eval mode: `tiny_model(method, kind=..., labels=..., seed=..., **config fields)`."""

    def make(
        method: str = "boundary_smoothing",
        *,
        kind: str = "wordpiece",
        labels: tuple[str, ...] = LABELS,
        seed: int = 0,
        **config: Any,
    ) -> SpanNERModel:
        set_seed(seed)
        settings = {**SMALL, **SMALL_BY_METHOD.get(method, {}), **config}
        return METHODS[method].from_encoder(encoder_folders[kind], labels=labels, **settings).eval()

    return make


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Rows with flat, nested, one-word and no entities; labels as in `LABELS`."""

    def row(words: str, *entities: tuple[int, int, str]) -> dict[str, Any]:
        return {
            "tokens": words.split(),
            "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        }

    return [
        row("Ana met Bo Li in Oslo .", (0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")),
        row("The University of New York opened .", (0, 5, "ORG"), (1, 5, "ORG"), (3, 5, "LOC")),
        row("it rained all the way"),
        row("Mira Stone works for the Bank of Oslo", (0, 2, "PER"), (5, 8, "ORG"), (7, 8, "LOC")),
        row("Oslo", (0, 1, "LOC")),
    ]


@pytest.fixture(scope="session")
def cases() -> Callable[[str], dict[str, Any]]:
    """Gives a trouble case by its id."""
    with CASES.open(encoding="utf-8") as file:
        by_id = {record["id"]: record for record in map(json.loads, file)}
    return by_id.__getitem__
