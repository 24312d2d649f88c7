"""The spaCy component."""

import json
import logging
import tomllib
from pathlib import Path

import pytest
from transformers import AutoTokenizer

spacy = pytest.importorskip("spacy")
from spacy.tokens import Doc  # noqa: E402

from hf_spanner import SpanNERPipeline  # noqa: E402
from hf_spanner.integrations import spacy_component  # noqa: E402
from hf_spanner.integrations.spacy_component import SpanNERComponent, flat_spans  # noqa: E402

TEXTS = ["Ana met Bo in Oslo .", "", "The University of New York opened", "it rained \U0001f600 all the way"] * 3


@pytest.fixture(scope="module")
def model_folder(tiny_model, tiny_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spacy_model")
    model = tiny_model(overlap="nested", lstm_layers=0)
    model.biaffine.linear_weight.data.mul_(40)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def nlp(model_folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("span_ner", config={"model": str(model_folder), "decoding": {"threshold": 0.3}})
    return nlp


def test_the_entry_point_names_the_factory():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["spacy_factories"]["span_ner"].partition(":")
    assert module == spacy_component.__name__
    assert callable(vars(spacy_component)[name])


def test_spans_are_those_of_the_pipeline_with_their_scores(nlp, model_folder):
    model = nlp.get_pipe("span_ner").ner.model
    pipeline = SpanNERPipeline(
        model=model, tokenizer=AutoTokenizer.from_pretrained(model_folder), threshold=0.3, batch_size=32
    )
    docs = list(nlp.pipe(TEXTS, batch_size=5))
    assert [doc.text for doc in docs] == TEXTS
    num_spans = 0
    for doc, entities in zip(docs, pipeline(TEXTS), strict=True):
        group = doc.spans["sc"]
        found = {(span.start_char, span.end_char, span.label_) for span in group}
        expected = {(entity["start"], entity["end"], entity["entity_group"]) for entity in entities}
        assert found == expected
        assert sorted(group.attrs["scores"]) == pytest.approx(sorted(entity["score"] for entity in entities), abs=1e-5)
        taken = [token.i for span in doc.ents for token in span]
        assert len(taken) == len(set(taken))
        assert {(span.start, span.end, span.label_) for span in doc.ents} <= {
            (span.start, span.end, span.label_) for span in group
        }
        num_spans += len(group)
    assert num_spans > 10


def test_one_text_has_the_spans_of_its_batch(nlp):
    (first, *_) = nlp.pipe(TEXTS)
    alone = nlp(TEXTS[0])
    assert [(span.start, span.end, span.label_) for span in alone.spans["sc"]] == [
        (span.start, span.end, span.label_) for span in first.spans["sc"]
    ]


def entity(start, end, label="X", score=0.5):
    return {"start": start, "end": end, "entity_group": label, "score": score}


@pytest.mark.parametrize(("choice", "spans"), [("expand", ["New", "New-York"]), ("drop", ["New"])])
def test_entities_that_cut_a_token_are_counted(choice, spans):
    doc = Doc(spacy.blank("en").vocab, words=["New", "New-York"])
    component = SpanNERComponent("m", misaligned=choice)
    component.annotate(doc, [entity(0, 3), entity(8, 12, score=0.75), entity(4, 7, score=0.25)])
    assert [span.text for span in doc.spans["sc"]] == spans
    if choice == "drop":
        assert component.counts["dropped, cuts a token"] == 2
    else:
        assert component.counts["widened to whole tokens"] == 2
        assert component.counts["dropped, equal to another after widening to tokens"] == 1
        assert list(doc.spans["sc"].attrs["scores"]) == [0.5, 0.75]


def test_what_was_widened_is_logged_at_the_end_of_a_stream(monkeypatch, caplog):
    vocab = spacy.blank("en").vocab
    component = SpanNERComponent("m")
    monkeypatch.setattr(SpanNERComponent, "ner", staticmethod(lambda texts: [[entity(0, 1)] for _ in texts]))
    with caplog.at_level(logging.WARNING):
        list(component.pipe([Doc(vocab, words=["ab"]), Doc(vocab, words=["cd"])], batch_size=1))
    assert "2 entities found, of which {'widened to whole tokens': 2}" in caplog.text


def test_the_best_scores_are_flat_and_ties_go_to_the_longer():
    doc = Doc(spacy.blank("en").vocab, words=list("abcd"))
    spans = [doc[0:2], doc[1:3], doc[3:4], doc[2:4]]
    assert [span.text for span in flat_spans(spans, [0.5, 0.9, 0.4, 0.4])] == ["b c", "d"]
    assert [span.text for span in flat_spans(spans, [0.5, 0.1, 0.4, 0.4])] == ["a b", "c d"]


def test_a_saved_pipeline_brings_its_model(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    config = (tmp_path / "pipeline" / "config.cfg").read_text(encoding="utf-8")
    folder = json.loads(next(line for line in config.splitlines() if line.startswith("model ="))[7:])
    (tmp_path / "pipeline" / "config.cfg").write_text(config.replace(folder, "/gone"), encoding="utf-8")
    again = spacy.load(tmp_path / "pipeline")
    docs = nlp(TEXTS[0]), again(TEXTS[0])
    own, other = (doc.spans["sc"] for doc in docs)
    assert [(span.start, span.end, span.label_) for span in own] == [
        (span.start, span.end, span.label_) for span in other
    ]
    assert list(own.attrs["scores"]) == pytest.approx(list(other.attrs["scores"]), abs=1e-6)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="model must be"):
        spacy.blank("en").add_pipe("span_ner")
    with pytest.raises(ValueError, match="misaligned must be"):
        SpanNERComponent("m", misaligned="contract")
    with pytest.raises(ValueError, match="decoding must hold settings of inference, got batch_size of the component"):
        SpanNERComponent("m", decoding={"batch_size": 2})
