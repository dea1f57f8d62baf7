"""The docstring of a plug-in in parts: prose, then paragraphs with a label such as `Paper:` or `Guarantee:`."""

import inspect
import re
from dataclasses import dataclass

LABELS = ("Protects", "Guarantee", "Does not hide", "Sees", "Needs", "Cost", "Specification", "Paper")
LABEL = re.compile(rf"({'|'.join(LABELS)}):\s+(.*)")


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts: what stands before the labelled paragraphs, and these by their label."""

    paragraphs: tuple[str, ...]
    labelled: dict[str, str]


def read_docstring(thing: object) -> Docstring:
    """Part a docstring at its labels; a label's text goes on until the next label or an empty line."""
    paragraphs, labelled, label = [""], dict[str, str](), ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        if match := LABEL.match(line):
            label = match[1]
            labelled[label] = match[2]
        elif label and line.strip():
            labelled[label] += f" {line.strip()}"
        else:
            label = ""
            paragraphs = [*paragraphs, ""] if not line.strip() else [*paragraphs[:-1], f"{paragraphs[-1]}\n{line}"]
    return Docstring(tuple(p.strip("\n") for p in paragraphs if p.strip()), labelled)
