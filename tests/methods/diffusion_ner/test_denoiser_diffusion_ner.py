"""The denoising network: pooling, attention, time and pointers, against plain twins; its memory."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hf_spanner.methods.diffusion_ner import DiffusionNERConfig
from hf_spanner.methods.diffusion_ner.denoiser_diffusion_ner import (
    BoundaryPooling,
    Denoiser,
    MeanPooling,
    PointedWords,
    SinusoidalEmbedding,
)

SIZE = 16


def denoiser(**fields: Any) -> Denoiser:
    """A seeded denoiser of width 16 in eval mode, its weights large enough to matter."""
    torch.manual_seed(0)
    settings = {"lstm_size": SIZE, "feedforward_size": 24, "num_attention_heads": 4, "num_labels": 3, **fields}
    module = Denoiser(DiffusionNERConfig(**settings))
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


def inputs(batch_size: int = 2, num_words: int = 7, num_spans: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """The words, the mask and the spans of one draw."""
    generator = torch.Generator().manual_seed(1)
    words = torch.randn(batch_size, num_words, SIZE, generator=generator)
    ends = torch.randint(0, num_words, (batch_size, 1, num_spans, 2), generator=generator)
    return words, torch.ones(batch_size, num_words, dtype=torch.bool), ends.sort(dim=-1).values


def vectors_of(module: Denoiser, spans: Tensor, words: Tensor, mask: Tensor, **options: Any) -> Tensor:
    return module(module.read(words, mask), spans, torch.tensor([500]), **options)


def test_mean_of_a_span_by_hand() -> None:
    """For words 1, 2, 4 and 8, words 0 to 0 give 1, words 1 to 3 give 14 / 3, and words 0 to 3 give 15 / 4."""
    words = torch.tensor([[[1.0], [2.0], [4.0], [8.0]]])
    pooling = MeanPooling()
    spans = torch.tensor([[[0, 0], [1, 3], [0, 3]]])
    assert pooling(pooling.read(words), spans).flatten().tolist() == pytest.approx([1.0, 14 / 3, 15 / 4])


def test_boundary_pooling_equals_its_equation() -> None:
    torch.manual_seed(0)
    pooling = BoundaryPooling(SIZE, 0.5).eval()
    words, _, spans = inputs()
    first, last = spans[:, 0].unbind(dim=-1)
    rows = torch.arange(len(words))[:, None]
    pair = torch.cat([pooling.first(words[rows, first]), pooling.last(words[rows, last])], dim=-1)
    torch.testing.assert_close(pooling(pooling.read(words), spans[:, 0]), pooling.output(pair))


def test_time_embedding_by_hand() -> None:
    """For h 4, f = (1, exp(-ln 10000)) = (1, 1e-4); for t 2 it is (sin 2, sin 2e-4, cos 2, cos 2e-4)."""
    embedding = SinusoidalEmbedding(4, has_mlp=False)
    expected = [math.sin(2), math.sin(2e-4), math.cos(2), math.cos(2e-4)]
    assert embedding(torch.tensor([0, 2]), torch.float32)[1].tolist() == pytest.approx(expected, abs=1e-6)
    assert embedding(torch.tensor([0]), torch.float32)[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert not list(embedding.parameters())
    assert len(list(SinusoidalEmbedding(4, has_mlp=True).parameters())) == 4


CONFIGURATIONS = [
    {},
    {"span_pooling": "boundary"},
    {"has_self_attention": False},
    {"has_cross_attention": False},
    {"has_self_attention": False, "has_cross_attention": False},
    {"has_slot_embedding": True},
    {"position_range": 3},
    {"type_reading": "pointed"},
    {"right_reads_left": True},
    {"right_reads_left": True, "position_range": 3},
    {"has_time_mlp": False},
    {"num_decoder_layers": 1},
]


def literal_attention(attention: nn.Module, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Multi-head attention of one sentence, head by head."""
    q, k, v = attention.query(queries), attention.key(keys), attention.value(values)
    width = q.shape[-1] // attention.num_heads
    seen = []
    for head in range(attention.num_heads):
        part = slice(head * width, (head + 1) * width)
        weights = (q[:, part] @ k[:, part].T / math.sqrt(width)).softmax(dim=-1)
        seen.append(weights @ v[:, part])
    return attention.output(torch.cat(seen, dim=-1))


def literal_vectors(module: Denoiser, config: dict[str, Any], words: Tensor, spans: Tensor, time: int) -> Tensor:
    """The span encoder on one sentence, in the order of the paper and the official code."""
    x = module.pooling(module.pooling.read(words[None]), spans[None])[0]
    places = 0.0
    if config.get("has_slot_embedding"):
        places = module.slots(torch.arange(len(spans)), torch.float32)
    for layer in module.layers:
        if config.get("has_self_attention", True):
            x = layer.self_norm(x + literal_attention(layer.self_attention, x + places, x + places, x))
        if config.get("has_cross_attention", True):
            x = layer.cross_norm(x + literal_attention(layer.cross_attention, x + places, words, words))
        x = layer.norm(x + layer.reduce(layer.expand(x).relu()))
    return x + module.time(torch.tensor([time]), torch.float32)


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=lambda config: " ".join(config) or "default")
def test_span_encoder_equals_a_plain_twin(config: dict[str, Any]) -> None:
    module = denoiser(**config)
    words, mask, spans = inputs()
    vectors = vectors_of(module, spans, words, mask)
    for row in range(2):
        expected = literal_vectors(module, config, words[row], spans[row, 0], 500)
        torch.testing.assert_close(vectors[row], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=lambda config: " ".join(config) or "default")
def test_every_parameter_takes_part(config: dict[str, Any]) -> None:
    module = denoiser(**config).train()
    words, mask, spans = inputs()
    sentence = module.read(words, mask)
    vectors = module(sentence, spans, torch.tensor([3, 700]))
    left, right = module.boundaries(sentence, vectors, spans)
    types = module.type_logits(sentence, vectors, spans[:, 0])
    (left.sum() + right.sum() + types.sum()).backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_type_is_read_from_the_pointed_words_and_those_between() -> None:
    """The twin projects [first; last; mean of first to last] of each span; a pair in the wrong order is turned."""
    module = denoiser(type_reading="pointed")
    words, mask, spans = inputs()
    ends = spans[:, 0]
    types = module.type_logits(module.read(words, mask), torch.full((2, 5, SIZE), math.nan), ends.flip(-1))
    for row in range(2):
        for span, (first, last) in enumerate(ends[row].tolist()):
            inside = words[row, first : last + 1].mean(dim=0)
            parts = torch.cat([words[row, first], words[row, last], inside])
            vector = module.pointed.project.weight @ parts + module.pointed.project.bias
            torch.testing.assert_close(types[row, span], module.types(vector), atol=1e-5, rtol=1e-5)


def test_no_tensor_of_pointed_words_is_larger_than_words_or_spans(largest_tensor: Any) -> None:
    """With M 20, N 30, h 16 and B 2 prefix sums are 992 numbers; a mask of words in spans would be 1,200."""
    words, spans = torch.randn(2, 30, SIZE, requires_grad=True), torch.randint(30, (2, 20, 2)).sort(dim=-1).values
    module = PointedWords(SIZE)
    with largest_tensor as largest:
        module(module.read(words), spans).sum().backward()
    assert largest.num_elements <= 2 * 31 * SIZE


@pytest.mark.parametrize("reach", [0, 3])
def test_the_right_pointer_reads_the_word_of_the_left_one(reach: int) -> None:
    """The twin takes each span by itself: it adds W sum_m P_l(m) H[m] to its vector, then scores word by word.

    Distances are counted from first and last word of the noisy span and from the likeliest word of the left pointer.
    """
    module = denoiser(right_reads_left=True, position_range=reach)
    words, mask, spans = inputs()
    sentence = module.read(words, mask)
    vectors = vectors_of(module, spans, words, mask)
    left, right = module.boundaries(sentence, vectors, spans)
    pointer = module.right
    for row in range(2):
        for span in range(5):
            shares = left[row, span].softmax(dim=-1)
            mean = sum(share * word for share, word in zip(shares, words[row], strict=True))
            vector = vectors[row, span] + module.left_word.weight @ mean
            origins = [*spans[row, 0, span].tolist(), left[row, span].argmax().item()]
            for place, word in enumerate(words[row]):
                score = pointer.output.bias[0] + pointer.output.weight[0] @ (
                    (pointer.words(word) + pointer.spans(vector)).relu()
                )
                if reach:
                    parts = [pointer.from_first, pointer.from_last, pointer.from_left]
                    tables = [part.expand(part.reduce(vector)) for part in parts]
                    score = score + sum(
                        table[max(-reach, min(reach, place - origin)) + reach]
                        for table, origin in zip(tables, origins, strict=True)
                    )
                torch.testing.assert_close(right[row, span, place], score, atol=1e-3, rtol=1e-4)


def test_loss_of_the_right_boundary_teaches_the_left_pointer_only_where_it_is_read() -> None:
    """The gradient goes through the mean of words under the left pointer's softmax."""
    words, mask, spans = inputs()
    for reads_left in (False, True):
        module = denoiser(right_reads_left=reads_left)
        sentence = module.read(words, mask)
        _, right = module.boundaries(sentence, vectors_of(module, spans, words, mask), spans)
        right.logsumexp(dim=-1).sum().backward()
        gradient = module.left.output.weight.grad
        assert reads_left == (gradient is not None and bool(gradient.any()))


def test_padding_of_words_changes_no_vector_and_gets_the_lowest_logit() -> None:
    module = denoiser(right_reads_left=True, position_range=3)
    words, mask, spans = inputs()
    padded_words, padded_mask = nn.functional.pad(words, (0, 0, 0, 3), value=9.0), nn.functional.pad(mask, (0, 3))
    vectors = vectors_of(module, spans, words, mask)
    torch.testing.assert_close(vectors_of(module, spans, padded_words, padded_mask), vectors, atol=1e-5, rtol=1e-5)
    sentence = module.read(padded_words, padded_mask)
    alone = module.boundaries(module.read(words, mask), vectors, spans)
    for scores, unpadded in zip(module.boundaries(sentence, vectors, spans), alone, strict=True):
        torch.testing.assert_close(scores[..., :7], unpadded, atol=1e-4, rtol=1e-4)
        assert (scores[..., 7:] == torch.finfo(torch.float32).min).all()
        assert scores[..., :7].abs().max() < 1e4


def test_draws_do_not_see_each_other() -> None:
    module = denoiser(has_slot_embedding=True)
    words, mask, spans = inputs()
    other = spans.flip(2)
    together = vectors_of(module, torch.cat([spans, other], dim=1), words, mask)
    torch.testing.assert_close(together[:, :5], vectors_of(module, spans, words, mask), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together[:, 5:], vectors_of(module, other, words, mask), atol=1e-5, rtol=1e-5)


def test_spans_that_do_not_exist_are_not_seen() -> None:
    module = denoiser()
    words, mask, spans = inputs()
    counts = torch.tensor([[[1, 1, 1, 0, 0]]] * 2)
    vectors = vectors_of(module, spans, words, mask, counts=counts)
    few = vectors_of(module, spans[:, :, :3], words, mask)
    torch.testing.assert_close(vectors[:, :3], few, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(vectors_of(module, spans, words, mask)[:, :3], few, atol=1e-3)


def test_a_span_that_stands_for_several_counts_as_often() -> None:
    """The spans a, b, a, a, c equal a counted three times, b, and c."""
    module = denoiser()
    words, mask, spans = inputs(num_spans=3)
    a, b, c = spans.split(1, dim=2)
    repeated = vectors_of(module, torch.cat([a, b, a, a, c], dim=2), words, mask)
    counted = vectors_of(module, spans, words, mask, counts=torch.tensor([[[3, 1, 1]]] * 2))
    torch.testing.assert_close(repeated[:, [0, 1, 4]], counted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(repeated[:, 2], counted[:, 0], atol=1e-5, rtol=1e-5)


def test_slots_tell_equal_spans_apart_only_where_asked() -> None:
    words, mask, spans = inputs(num_spans=1)
    twice = spans.repeat(1, 1, 2, 1)
    same = vectors_of(denoiser(), twice, words, mask)
    torch.testing.assert_close(same[:, 0], same[:, 1])
    apart = vectors_of(denoiser(has_slot_embedding=True), twice, words, mask)
    assert (apart[:, 0] - apart[:, 1]).abs().max() > 1e-2


def test_a_sentence_without_words_stays_finite() -> None:
    module = denoiser()
    words, mask = torch.zeros(1, 1, SIZE), torch.zeros(1, 1, dtype=torch.bool)
    vectors = vectors_of(module, torch.zeros(1, 1, 4, 2, dtype=torch.long), words, mask)
    assert vectors.isfinite().all()


def test_dropout_acts_in_training_only() -> None:
    module = denoiser(decoder_dropout=0.5, span_pooling="boundary")
    words, mask, spans = inputs()
    call: Callable[[], Tensor] = lambda: vectors_of(module, spans, words, mask)  # noqa: E731
    assert torch.equal(call(), call())
    module.train()
    assert not torch.equal(call(), call())
