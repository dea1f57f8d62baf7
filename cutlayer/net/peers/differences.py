"""Differences: what two manifests do not agree on, in lines that are safe to print."""

import json
from collections.abc import Mapping

from cutlayer.data.task import NAME

VALUE_LIMIT = 500  # characters of a value in a line
LINE_LIMIT = 50  # lines


def differences(ours: Mapping[str, object], theirs: Mapping[str, object], peer: str) -> list[str]:
    """A line for every setting in which two manifests differ."""
    lines = []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, "(nothing)"), theirs.get(key, "(nothing)")
        if isinstance(here, dict) and isinstance(there, dict):
            lines += [f"{_key(key)}.{line}" for line in differences(here, there, peer)]
        elif here != there:
            lines.append(f"{_key(key)}: here {_shown(here)}, at {peer} {_shown(there)}")
        if len(lines) >= LINE_LIMIT:
            return [*lines[:LINE_LIMIT], "and more"]
    return lines


def printable(words: object) -> str:
    """A peer's words on one short line, without anything that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in str(words)[:VALUE_LIMIT])


def _shown(value: object) -> str:
    """A setting on one short printable line, whatever a peer put into it."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "(something deep)"
    return text if len(text) <= VALUE_LIMIT else text[:VALUE_LIMIT] + "..."


def _key(key: str) -> str:
    return key if NAME.fullmatch(key) else _shown(key)
