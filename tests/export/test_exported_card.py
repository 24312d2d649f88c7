from huggingface_hub import ModelCard

from hf_spanner.export.check import compared
from hf_spanner.export.exported_card import exported_card

FACTS = {"to": "onnx", "precision": "int8", "decoding": {}, "rows": "dev.jsonl", "comparison": None, "notes": ()}
FACTS["runs_alone"] = True


def test_the_card_of_the_model_stays_and_says_precision_and_loss() -> None:
    entities = [[{"start": 0, "end": 1, "label": "PER", "score": 0.5}]]
    old = "---\nlicense: mit\ntags:\n- span-ner\n---\n\n# name\n\nText.\n"
    text = exported_card(old, **{**FACTS, "comparison": compared(entities, [[]], entities), "notes": ["A note."]})
    card = ModelCard(text)
    assert card.data.to_dict() == {"license": "mit", "tags": ["span-ner", "onnx"]}
    assert card.text.lstrip().startswith("# name\n\nText.\n\n## Export")
    assert "int8 weights" in text
    assert "| torch float32 | 100.00 | 0.5000 |\n| exported | 0.00 | none |" in text
    assert "A note." in text
    assert "ort_span_ner" in text


def test_a_model_without_a_card_gets_one() -> None:
    text = exported_card("", **{**FACTS, "precision": "fp32", "decoding": {"num_steps": 3}, "runs_alone": False})
    assert "not compared" in text
    assert "fixed: num_steps 3." in text
    assert "ort_span_ner" not in text
