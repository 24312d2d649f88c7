"""UIMA CAS, as INCEpTION exports it: XMI with its type system, a ZIP of both, or JSON."""

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.layers import NAMED_ENTITY, chosen_layer, short_name
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Row, one_line
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

TYPE_SYSTEM = "TypeSystem.xml"
SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
TOKEN, SENTENCE = f"{SEGMENTATION}.Token", f"{SEGMENTATION}.Sentence"
CUSTOM = ("webanno.custom.", "custom.")
RELATION_FEATURES = {"Governor", "Dependent"}
MOST_BYTES = 2**30  # that a ZIP may unpack to
LABELS = ("value", "label")


def cas_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of the sentences of a CAS, which is one document; of the whole text where it has no sentences.

    Args:
        path: An `.xmi` file beside its `TypeSystem.xml`, a `.zip` with both, or a `.json` file.
        reading: Options, of which `layer` matters here, and report. The label is the feature `value` or `label`, or the
            layer's first text; a span without a value is named after its layer and counted.

    Raises:
        ValueError: For a file without its type system, and a layer that is not clear.
        ModuleNotFoundError: If dkpro-cassis is not installed.
    """
    import cassis

    try:
        cas = _loaded(path, cassis)
        text = "" + (cas.sofa_string or "")  # no other type
        known = {kind.name for kind in cas.typesystem.get_types()}
        tokens, sentences = (list(cas.select(name)) if name in known else [] for name in (TOKEN, SENTENCE))
        words = [(token.begin, token.end) for token in tokens if token.begin < token.end]
        parts = [sentence.begin for sentence in sentences if sentence.begin < sentence.end]
    except Exception as error:  # dkpro-cassis raises whatever its parts raise
        allowed = f"an .xmi file beside its {TYPE_SYSTEM}, a ZIP of both, or JSON"
        raise ValueError(
            f"{path} is not a CAS that can be read ({one_line(str(error))}); allowed: {allowed}"
        ) from error
    names = [kind.name for kind in cas.typesystem.get_types() if kind.name == NAMED_ENTITY or _is_custom(kind)]
    used = {name for name in names if next(iter(cas.select(name)), None) is not None}
    layer = chosen_layer(names, used, str(path), reading)
    entities = [] if layer is None else [_entity(item, layer, path, reading) for item in cas.select(layer)]
    annotated = AnnotatedText(
        str(path), text, entities, document=path.with_suffix("").name, words=words or None, parts=parts or None
    )
    yield from text_rows(annotated, reading)


def _loaded(path: Path, cassis: Any) -> Any:
    """The CAS of a file."""
    if path.suffix == ".json":
        return cassis.load_cas_from_json(BytesIO(path.read_bytes()))
    if path.suffix != ".zip":
        types = cassis.load_typesystem(BytesIO(path.with_name(TYPE_SYSTEM).read_bytes()))
        return cassis.load_cas_from_xmi(BytesIO(path.read_bytes()), types)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        texts = [name for name in names if name.endswith(".xmi")]
        if len(texts) != 1:
            raise ValueError(f"it holds {names}")
        if sum(item.file_size for item in archive.infolist()) > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
        types = cassis.load_typesystem(BytesIO(archive.read(TYPE_SYSTEM)))
        return cassis.load_cas_from_xmi(BytesIO(archive.read(texts[0])), types)


def _is_custom(kind: Any) -> bool:
    """Whether a type is a span layer that users made."""
    features = {feature.name for feature in kind.all_features}
    return kind.name.startswith(CUSTOM) and {"begin", "end"} <= features and not features & RELATION_FEATURES


def _entity(item: Any, layer: str, path: Path, reading: Reading) -> TextEntity:
    """An annotation as an entity."""
    features = [feature.name for feature in item.type.features if feature.rangeType.name == "uima.cas.String"]
    name = next((name for name in (*LABELS, *features) if name in features), None)
    value = None if name is None else item.get(name)
    place = f"{path}, characters {item.begin} to {item.end}"
    if value is None:
        reading.report.count("changed, span without value named after its layer", place)
    label = short_name(layer) if value is None else value
    return TextEntity(place, layer, [(item.begin, item.end)], label)
