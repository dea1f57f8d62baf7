"""A report as one HTML page that needs nothing else: style, scripts, figures and pictures are inside it.

A content security policy forbids any request, and runs no script but the two that are named by their hash.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from cutlayer.finding import Status, Target
from cutlayer.json_types import Json
from cutlayer.report import engineer, officer
from cutlayer.report.blocks import (
    Block,
    Entry,
    Figure,
    Items,
    Matrix,
    Pictures,
    Section,
    Table,
    Text,
    figure,
    interval,
    percent,
)
from cutlayer.report.cells import MatrixCell
from cutlayer.report.record import Record
from cutlayer.version import __version__

SHORT = {Status.DOES_NOT_APPLY: "n/a", Status.FAILED: "failed", Status.MISSING: "missing"}


def html(record: Record) -> str:
    """Return the whole page."""
    first, second = officer.sections(record), engineer.sections(record)
    figures = {
        block.name: dict(block.views) for section in second for block in section.blocks if isinstance(block, Figure)
    }
    return page(
        record.title,
        toc="".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in (*first, *second)),
        officer=sections(first),
        engineer=sections(second),
        filter="".join(_filter(threat) for threat in ("all", *Target)),
        data=embedded({"figures": figures}),
    )


def page(title: str, *, template: str = "page.html", **parts: str) -> str:
    """Fill the frame."""
    library, script = (_plotly(), static("page.js")) if template == "page.html" else ("", "")
    policy = " ".join(f"'{_hash(text)}'" for text in (library, script) if text) or "'none'"
    return Template(static(template)).substitute(
        title=escape(title),
        style=static("style.css"),
        library=library,
        script=script,
        scripts=policy,
        version=escape(__version__),
        **parts,
    )


@cache
def static(name: str) -> str:
    """A file that lies beside this one."""
    return files("cutlayer.report").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(data: Json) -> str:
    """JSON that cannot end the script element that it stands in."""
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def sections(parts: Sequence[Section]) -> str:
    """Sections in order."""
    return "\n".join(
        f'<section id="{part.name}" aria-labelledby="{part.name}-title">'
        f'<h3 id="{part.name}-title">{escape(part.title)}</h3>\n' + "\n".join(map(block, part.blocks)) + "</section>"
        for part in parts
    )


def block(content: Block) -> str:
    """One block."""
    match content:
        case Text():
            return f"<p{' class=strong' if content.strong else ''}>{escape(content.text)}</p>"
        case Items(code=True):
            return "".join(f"<pre><code>{escape(item)}</code></pre>" for item in content.items)
        case Items():
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in content.items) + "</ul>"
        case Table():
            return _folded(content) if content.folded else table(content)
        case Figure():
            return _figure(content)
        case Pictures():
            return _pictures(content)
        case Matrix():
            return _matrix(content)


def table(content: Table) -> str:
    """A real table, the first column as headings of its lines; wide ones scroll."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in content.head)
    lines = []
    for number, row in enumerate(content.rows):
        threat = f' data-threat="{escape(content.threats[number])}"' if content.threats else ""
        first = f'<th scope="row">{_entry(row[0])}</th>' if row else ""
        lines.append(f"<tr{threat}>{first}{''.join(_td(value) for value in row[1:])}</tr>")
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(content.caption)}"><table>'
        f"<caption>{escape(content.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _td(value: Entry) -> str:
    return f"<td{'' if isinstance(value, str) else ' class=number'}>{_entry(value)}</td>"


def _entry(value: Entry) -> str:
    if isinstance(value, str):
        return escape(value)
    return figure(value) if value is None else f'<data value="{value!r}">{figure(value)}</data>'


def _folded(content: Table) -> str:
    return f"<details><summary>{escape(content.caption)}</summary>{table(content)}</details>"


def _figure(content: Figure) -> str:
    names = list(content.views)
    options = "".join(f'<option value="{n}">{escape(name)}</option>' for n, name in enumerate(names))
    chooser = f'<label class="chooser">Show <select data-figure="{content.name}">{options}</select></label>'
    label = escape(f"{content.caption} The data table below holds the same figures.")
    return (
        f"<figure{_threat(content.threat)}><figcaption>{escape(content.caption)}</figcaption>"
        f"{chooser if names[1:] else ''}"
        f'<div class="plot" id="plot-{content.name}" data-figure="{content.name}" role="img" '
        f'aria-label="{label}"></div>'
        f'<details class="data"><summary>Data table</summary>{table(content.table)}</details></figure>'
    )


def _pictures(content: Pictures) -> str:
    rows = []
    for name, images in content.lines:
        shown = "".join(
            f'<td><img src="data:image/png;base64,{escape(image)}" alt="{escape(f"{name}, image {n}")}"></td>'
            for n, image in enumerate(images, start=1)
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{shown}</tr>')
    caption = escape(content.caption)
    return (
        f'<figure class="pictures"{_threat(content.threat)}><div class="wide" role="region" tabindex="0" '
        f'aria-label="{caption}"><table><caption>{caption}</caption><tbody>{"".join(rows)}</tbody></table></div>'
        f'<details class="data"><summary>Data table</summary>{table(content.table)}</details></figure>'
    )


def _threat(threat: str) -> str:
    return f' data-threat="{escape(threat)}"' if threat else ""


def _filter(threat: str) -> str:
    pressed = "true" if threat == "all" else "false"
    return f'<button type="button" data-show="{threat}" aria-pressed="{pressed}">{threat}</button>'


def _matrix(content: Matrix) -> str:
    head = "".join(f'<th scope="col">{escape(setup)}</th>' for setup in content.setups)
    lines: list[str] = []
    templates: list[str] = []
    for first, line in content.lines:
        tds = []
        for cell in line:
            if cell is None:
                tds.append('<td class="empty">not part of the study</td>')
                continue
            name = f"cell-{len(templates)}"
            title = f"<h4>{escape(f'{cell.attack} against {cell.setup}')}</h4>"
            inside = "".join(map(block, content.details[engineer.key_of(cell)]))
            templates.append(f'<template id="{name}">{title}{inside}</template>')
            tds.append(f"<td>{_button(cell, name)}</td>")
        where = f'{escape(first.attack)}<br><span class="about">{escape(first.about)}</span>'
        lines.append(f'<tr data-threat="{first.target}"><th scope="row">{where}</th>{"".join(tds)}</tr>')
    caption = escape(content.caption)
    return (
        f'<p><a class="skip" href="#after-matrix">Skip the matrix</a></p><div class="wide" role="region" tabindex="0" '
        f'aria-label="Matrix"><table class="matrix"><caption>{caption}</caption><thead><tr><th scope="col">attack</th>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>{''.join(templates)}"
        '<p id="after-matrix" class="legend"><span class="scale" aria-hidden="true"></span> '
        "from the baseline (0%, pale) to perfect (100%, strong). n/a: the attack does not apply.</p>"
    )


def _button(cell: MatrixCell, name: str) -> str:
    start = f"{cell.attack}, {cell.about}, against {cell.setup}: "
    if not cell.done:
        reason = cell.first["reason"]
        label = escape(start + cell.status + (f", {reason}" if reason else ""))
        shown = SHORT[cell.status]
        return f'<button type="button" class="cell none" data-detail="{name}" aria-label="{label}">{shown}</button>'
    label = escape(
        f"{start}{cell.metric} {figure(cell.value.mean)}, baseline {figure(cell.baseline)}, interval "
        f"{interval(cell.value)}, {percent(cell.gain.mean)} of the way to perfect, {cell.standing.value}"
    )
    mark = ' <abbr title="some seeds gave no figure">*</abbr>' if cell.gaps else ""
    return (
        f'<button type="button" class="cell" data-detail="{name}" aria-label="{label}" '
        f'style="--heat: {cell.heat:.3f}"><data value="{cell.value.mean!r}">{figure(cell.value.mean)}</data>{mark}'
        f'<span class="base">vs {figure(cell.baseline)}, {percent(cell.gain.mean)}</span></button>'
    )
