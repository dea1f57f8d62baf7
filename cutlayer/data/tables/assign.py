"""Who holds which column of a user's table: check what the user named, or divide the columns."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from cutlayer.data import split
from cutlayer.errors import ConfigError

_Array = npt.NDArray[np.float64]


def known(name: str, columns: Sequence[str], what: str) -> str:
    """Return the column's name as the table spells it; refuse one that is absent, suggest the nearest."""
    if name.strip() in columns:
        return name.strip()
    near = get_close_matches(name.strip(), columns, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" Its columns are {_listed(columns)}."
    raise ConfigError(f"Expected {what} to be a column of the table, found none of that name.{hint}")


def kept(columns: Sequence[str], without: Sequence[str], used: Collection[str | None]) -> list[str]:
    """The columns that may be inputs: all but those in use as label or id, and those to do without."""
    if isinstance(without, str):
        raise ConfigError(f"Expected without to be a list of columns, got the text {without!r}.")
    left_out = [known(name, columns, f"{name!r} in without") for name in without]
    for name in left_out:
        if name in used:
            raise ConfigError(f"Expected inputs to do without, got {name!r}, the label or id column: take it out.")
    return [name for name in columns if name not in used and name not in left_out]


def named(
    parties: Mapping[str, Sequence[str]], columns: Sequence[str], label: str, id_column: str | None
) -> dict[str, list[str]]:
    """Check the user's own list of columns per party."""
    holder: dict[str, str] = {}
    held: dict[str, list[str]] = {}
    for party, names in parties.items():
        if not party.strip():
            raise ConfigError("Expected a name for every party, got an empty one: name it.")
        if isinstance(names, str):
            raise ConfigError(f"Expected a list of columns for party {party!r}, got the text {names!r}.")
        if not names:
            raise ConfigError(f"Expected at least one column for party {party!r}, got none: give it one.")
        held[party] = [known(name, columns, f"{name!r} of party {party!r}") for name in names]
        for name in held[party]:
            _refuse_use(name, party, label, id_column)
            if name in holder:
                where = f"twice by {party!r}" if holder[name] == party else f"by {holder[name]!r} and {party!r}"
                raise ConfigError(f"Expected column {name!r} to be held once, got it named {where}: remove one.")
            holder[name] = party
    if not held:
        raise ConfigError("Expected at least one party with columns, got none: name one.")
    return held


def _refuse_use(name: str, party: str, label: str, id_column: str | None) -> None:
    if name == label:
        raise ConfigError(
            f"Expected party {party!r} to hold features, got the label {name!r}: take it out of the columns "
            f"and pass label_party={party!r} if this party holds the labels."
        )
    if name == id_column:
        raise ConfigError(f"Expected party {party!r} to hold features, got the id column {name!r}: take it out.")


def divided(
    partition: str,
    parties: int,
    names: Sequence[str],
    features: _Array,
    labels: _Array | npt.NDArray[np.int64],
    rng: np.random.Generator,
    *,
    alpha: float,
    beta: float,
) -> dict[str, list[str]]:
    """Divide the columns among unnamed parties; features and labels are of training rows only."""
    if partition == "random":
        blocks = split.at_random(len(names), parties, rng)
    elif partition == "importance":
        blocks = split.by_importance(features, labels, alpha, rng, parties=parties)
    elif partition == "correlation":
        blocks = split.by_correlation(features, parties, beta, rng)
    else:
        blocks = split.evenly(len(names), parties)
    return {
        party: [names[number] for number in block]
        for party, block in zip(split.party_names(parties), blocks, strict=True)
    }


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:12])
    return f"{shown} and {len(columns) - 12} more" if len(columns) > 12 else shown
