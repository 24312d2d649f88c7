"""UIMA CAS, as INCEpTION exports it: XMI with its type system, a ZIP of both, or JSON."""

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.layers import NAMED_ENTITY, chosen_layer, short_name
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

TYPE_SYSTEM = "TypeSystem.xml"
SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
TOKEN, SENTENCE = f"{SEGMENTATION}.Token", f"{SEGMENTATION}.Sentence"
CUSTOM = ("webanno.custom.", "custom.")
RELATION_FEATURES = {"Governor", "Dependent"}
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
    cas = _loaded(path)
    names = [kind.name for kind in cas.typesystem.get_types() if kind.name == NAMED_ENTITY or _is_custom(kind)]
    used = {name for name in names if next(iter(cas.select(name)), None) is not None}
    layer = chosen_layer(names, used, str(path), reading)
    entities = [] if layer is None else [_entity(item, layer, path, reading) for item in cas.select(layer)]
    known = {kind.name for kind in cas.typesystem.get_types()}
    tokens, sentences = (list(cas.select(name)) if name in known else [] for name in (TOKEN, SENTENCE))
    words = [(token.begin, token.end) for token in tokens if token.begin < token.end]
    annotated = AnnotatedText(
        str(path),
        cas.sofa_string or "",
        entities,
        document=path.with_suffix("").name,
        words=words or None,
        parts=[sentence.begin for sentence in sentences] or None,
    )
    yield from text_rows(annotated, reading)


def _loaded(path: Path) -> Any:
    """The CAS of a file."""
    from cassis import load_cas_from_json, load_cas_from_xmi, load_typesystem

    if path.suffix == ".json":
        return load_cas_from_json(BytesIO(path.read_bytes()))
    if path.suffix != ".zip":
        types = path.with_name(TYPE_SYSTEM)
        if not types.is_file():
            raise ValueError(f"{path} lacks its type system; allowed: a file {types} beside it, or a ZIP of both")
        return load_cas_from_xmi(BytesIO(path.read_bytes()), load_typesystem(BytesIO(types.read_bytes())))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        texts = [name for name in names if name.endswith(".xmi")]
        if TYPE_SYSTEM not in names or len(texts) != 1:
            raise ValueError(f"{path} holds {names}; allowed: one .xmi file and {TYPE_SYSTEM}")
        types = load_typesystem(BytesIO(archive.read(TYPE_SYSTEM)))
        return load_cas_from_xmi(BytesIO(archive.read(texts[0])), types)


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
