"""Write the reference pages of attacks, defences, cuts, models, datasets and verbs from their docstrings.

Run `make generated` (or `PYTHONPATH=. python docs/generate.py`) after a docstring or a constructor changed. It lies
here and not in the package because only those who change the code need it. What stands in a page outside of the two
marker lines is written by hand and kept; everything between them is replaced. `tests/test_docs.py` fails while a page
is not what this writes.
"""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from verbs import verbs

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer import data, models
from cutlayer.attack import Attack, Target
from cutlayer.cut import Cut
from cutlayer.data.about import About
from cutlayer.defence import Defence
from cutlayer.docstring import LABELS, read_docstring
from cutlayer.models import named
from cutlayer.spec import find

DOCS = Path(__file__).parent
BEGIN = "<!-- Generated from docstrings by docs/generate.py; do not edit below this line. -->"
END = "<!-- End of the generated part. -->"
WIDTH = 120
WORD = re.compile(r"(?:`[^`]*`|\S)+")  # what stands between backticks is not broken
LOOKS_LIKE_MARKUP = re.compile(r"([-+*>#|=]|\d+[.)])$")  # at the start of a line, these begin a list, a heading, ...
CITATION = re.compile(r"([a-z][a-z-]*[a-z])(?:, sections? ([\d.]*\d(?:(?:, | and | to )[\d.]*\d)*))?")
COMMON_OPTIONS = ("parties", "label_party", "seed", "limit")  # explained once for all datasets


@dataclass(frozen=True)
class Section:
    """One plug-in on a page, under the heading of its group."""

    group: str
    name: str
    text: str


def wrap(text: str, indent: str = "") -> str:
    """Break prose into lines that Markdown reads as one paragraph: none begins with a character that means more."""
    lines: list[list[str]] = [[]]
    for word in WORD.findall(text):
        if lines[-1] and len(indent) + len(" ".join([*lines[-1], word])) > WIDTH:
            carried: list[str] = []
            while len(lines[-1]) > 1 and LOOKS_LIKE_MARKUP.match((carried or [word])[0]):
                carried.insert(0, lines[-1].pop())
            lines.append(carried)
        lines[-1].append(word)
    return f"\n{indent}".join(" ".join(line) for line in lines)


def prose(paragraph: str) -> str:
    """A paragraph of a docstring as Markdown; items of a list stay items."""
    items = re.split(r"\n(?=- )", re.sub(r"<(?=\w)", r"\\<", paragraph))
    return "\n".join(wrap(item, "  " if item.startswith("- ") else "") for item in items)


def bullet(label: str, text: str) -> str:
    """One labelled paragraph as an item of a list."""
    return wrap(f"- **{label}**: {text}", "  ")


def sections_cited(numbers: str | None) -> list[str]:
    """The section numbers in "2", "5 and 8" or "2 to 4"."""
    if numbers and (span := re.fullmatch(r"(\d+) to (\d+)", numbers)):
        return [str(number) for number in range(int(span[1]), int(span[2]) + 1)]
    return re.findall(r"[\d.]*\d", numbers or "")


def headings(page: Path) -> dict[str, str]:
    """The anchor of every numbered section of a specification, as GitHub makes it."""
    titles = re.findall(r"^##+ (([\d.]*\d)\.? .*)$", page.read_text(), re.MULTILINE)
    return {number: anchor(title) for title, number in titles}


def anchor(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def link_specifications(text: str) -> str:
    """Turn `baselines, section 8` into links to the pages and sections of docs/specs/."""

    def linked(match: re.Match[str]) -> str:
        page = DOCS / "specs" / f"{match[1]}.md"
        if not page.exists():
            return match[0]
        anchors = headings(page)
        out = f"[{match[1]}](specs/{page.name})"
        if match[2]:
            numbers = re.sub(
                r"[\d.]*\d", lambda number: f"[{number[0]}](specs/{page.name}#{anchors[number[0]]})", match[2]
            )
            out += f", section{'s' if len(sections_cited(match[2])) > 1 else ''} {numbers}"
        return out

    return CITATION.sub(linked, text)


def kind(hint: Any, default: object) -> str:
    """What else than the default may be written for a setting of this type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        words = [kind(a, default) for a in args if a is not NoneType]
        return " or ".join([*words, *(["`none`"] if NoneType in args and default is not None else [])])
    if origin is tuple or getattr(origin, "__name__", "") == "Sequence":
        return f"{kind(args[0], default)}s, joined by `-`"
    choices: Iterable[object] = ()
    if inspect.isclass(hint) and issubclass(hint, Enum):
        choices = hint
    elif origin is Literal:
        choices = args
    elif hint is bool:
        choices = (True, False)
    if others := [f"`{plain(choice)}`" for choice in choices if choice != default]:
        return f"or {', '.join(others)}"
    return {int: "whole number", float: "number", str: "word"}.get(hint, f"`{hint}`")


def plain(value: object) -> str:
    """A value as the command line spells it."""
    if isinstance(value, tuple):
        return "-".join(map(plain, value)) or "none"
    value = value.value if isinstance(value, Enum) else value
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def settings(function: Callable[..., object], without: Iterable[str] = ()) -> str:
    """The keyword arguments of a constructor or a function as the command line spells them: default, type."""
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return ", ".join(
        f"`{p.name}={plain(p.default)}` ({kind(hints[p.name], p.default)})" for p in keywords if p.name not in without
    )


def body(thing: Callable[..., object], facts: Iterable[str] = (), without: Iterable[str] = (), cost: str = "") -> str:
    """What a section says: prose, facts, labelled paragraphs, settings."""
    docstring = read_docstring(thing)
    labelled = {"Cost": cost, **docstring.labelled, "Settings": settings(thing, without)}
    if "Specification" in labelled:
        labelled["Specification"] = link_specifications(labelled["Specification"])
    items = [*facts, *(bullet(label, labelled[label]) for label in (*LABELS, "Settings") if labelled.get(label))]
    return "\n\n".join([*map(prose, docstring.paragraphs), *(["\n".join(items)] if items else [])])


def attacks() -> Iterator[Section]:
    """Attacks, by what they are after."""
    for name, cls in find(cutlayer.attacks, Attack).items():
        target = "the outcome" if cls.target is Target.OUTCOME else cls.target.value
        facts = [bullet("Attacker", f"the {cls.by.value}; granted by default: {cls().asks}.")]
        yield Section(f"On {target}", name, body(cls, facts))


def protecting(package: ModuleType, base: type[Any]) -> Iterator[Section]:
    """Defences or cuts, by what they protect."""
    measured = json.loads((DOCS.parent / "results" / "bench-defences.json").read_text())
    for name, cls in find(package, base).items():
        protects = read_docstring(cls).labelled.get("Protects", "").partition(";")[0].rstrip(".")
        ratios = [(key, ratio) for key, ratio in measured.items() if re.split("[:,]", key)[0] == name]
        cost = "; ".join(f"an epoch takes {ratio:.2f} times as long ({key})." for key, ratio in ratios)
        yield Section(f"Protect {protects}" if protects else "Others", name, body(cls, cost=cost))


def bottoms_and_tops() -> Iterator[Section]:
    """Models by the name they have on the command line, then the classes that Python code uses."""
    for group, known in (("Bottoms by name", named.bottoms()), ("Tops by name", named.tops())):
        for name, function in known.items():
            yield Section(group, name, body(function))
    for name in dir(models):
        thing = getattr(models, name)
        if inspect.isclass(thing):
            needed = [p for p in inspect.signature(thing).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
            yield Section("Classes", f"{name}({', '.join(p.name for p in needed)})", body(thing))


def datasets() -> Iterator[Section]:
    """Datasets, by name."""
    for about in data.describe():
        loader = getattr(data, about.name.replace("-", "_"))
        yield Section("By name", about.name, body(loader, dataset_facts(about), COMMON_OPTIONS))


def dataset_facts(about: About) -> Iterator[str]:
    """What is known of a dataset before its files are opened."""
    classes = f"{about.classes} classes" if about.classes else "regression"
    columns = f"{about.columns:,} columns" if about.columns else "text"
    yield bullet("Holds", f"{about.about}; {about.rows:,} rows, {columns}, {classes}")
    for label, text in (("Used by", about.papers), ("Terms", about.terms)):
        if text:
            yield bullet(label, text)


def command_line() -> Iterator[Section]:
    """Verbs, in the panels of `cutlayer --help`."""
    for panel, name, text, options in verbs():
        items = "\n".join(wrap(f"- {option}", "  ") for option in options)
        parts = [part if part.startswith("```") else prose(part) for part in text.split("\n\n")]
        yield Section(panel, name, "\n\n".join([*parts, items]))


PAGES: dict[str, tuple[Callable[[], Iterator[Section]], tuple[str, ...]]] = {
    "ref-attacks.md": (attacks, ("On labels", "On features", "On the outcome")),
    "ref-defences.md": (
        lambda: protecting(cutlayer.defences, Defence),
        ("Protect labels", "Protect features", "Protect labels and features", "Protect the outcome"),
    ),
    "ref-cuts.md": (lambda: protecting(cutlayer.cuts, Cut), ("Protect nothing", "Protect features")),
    "ref-models.md": (bottoms_and_tops, ("Bottoms by name", "Tops by name", "Classes")),
    "ref-datasets.md": (datasets, ("By name",)),
    "ref-command-line.md": (command_line, ("Simulate", "Look", "Deploy")),
}


def generated(page: str) -> str:
    """The generated part of a page: links, then a section for each plug-in under the heading of its group."""
    make, groups = PAGES[page]
    sections = sorted(make(), key=lambda section: (*groups, section.group).index(section.group))
    used = Counter[str]()
    links, parts = dict[str, list[str]](), list[str]()
    for section in sections:
        if section.group not in links:
            links[section.group] = []
            parts.append(f"## {section.group}")
        place = anchor(section.name)
        links[section.group].append(f"[`{section.name}`](#{place}{f'-{used[place]}' if used[place] else ''})")
        used[place] += 1
        parts.append(f"### `{section.name}`\n\n{section.text}")
    contents = "\n".join(bullet(group, ", ".join(members)) for group, members in links.items())
    return "\n\n".join([contents, *parts])


def renewed(page: str) -> str:
    """The whole page, with what stands outside of the markers as it is."""
    before, _, rest = (DOCS / page).read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n\n{generated(page)}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(renewed(page))
