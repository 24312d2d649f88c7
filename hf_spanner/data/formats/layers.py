"""Files with several layers of annotation: the one that holds the entities is a choice where it is not clear."""

from collections.abc import Collection, Sequence

from hf_spanner.data.policy import Reading

NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"  # WebAnno's and INCEpTION's own layer


def chosen_layer(layers: Sequence[str], used: Collection[str], source: str, reading: Reading) -> str | None:
    """The layer asked for, else the named entities, else the only one with annotations; None if there is none.

    Args:
        layers: The span layers of a file by their full names.
        used: Those that have annotations.
        source: The file, for messages.
        reading: Options, of which `layer` may be a full name or its last part, and report, in which the layer is noted.

    Raises:
        ValueError: For a layer that is not there, and without a choice where several have annotations.
    """
    asked = reading.options.layer
    if asked is not None:
        named = [layer for layer in layers if asked in (layer, short_name(layer))]
        if len(named) != 1:
            raise ValueError(f"{source}: layer is {asked!r}, allowed: one of {list(layers)}")
        layer = named[0]
    elif NAMED_ENTITY in used:
        layer = NAMED_ENTITY
    elif len(used) > 1:
        raise ValueError(f"{source}: layers {sorted(used)} have annotations; allowed: layer= one of them")
    else:
        layer = next(iter(used), None)
    for other in sorted(set(used) - {layer}):
        reading.report.count("skipped, layer", f"{source}: {other}")
    return layer


def short_name(layer: str) -> str:
    """The last part of the name of a layer."""
    return layer.rpartition(".")[2]
