"""One small page for people: every figure beside its baseline, and the trade-off plot. Opens offline."""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

from cutlayer.report.plots import LESS_IS_MORE, trade_off
from cutlayer.version import __version__

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ddd; --soft: #666; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181b; --line: #3a3d42; --soft: #a5a8ad; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.875rem; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: 0.4rem 0.6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
small, caption, footer { color: var(--soft); }
caption { text-align: left; padding-bottom: 0.5rem; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
"""
HEADINGS = ("defence", "attack", "who learns what", "leakage", "95% interval", "baseline", "utility", "attacker knows")


class Findings(Protocol):
    """What a page is made of: a `cutlayer.Report`."""

    rows: list[dict[str, Any]]

    def summary(self) -> list[dict[str, Any]]:
        """One row per defence and attack."""


def page(report: Findings) -> str:
    """Return the report as one self-contained HTML page."""
    rows = report.summary()
    picture = io.BytesIO()
    trade_off(rows, picture)
    plot = base64.b64encode(picture.getvalue()).decode()
    tasks = list(dict.fromkeys(str(row.get("task", "")) for row in rows))
    tables = "".join(_table(task, [row for row in rows if str(row.get("task", "")) == task]) for task in tasks)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cutlayer: findings</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>What each party can learn about the others</h1>
<p>Every leakage figure stands beside its baseline: the best guess of an attacker with the same rows and
the same side knowledge, but without what crossed the cut. Only the distance between the two is leakage.
Attacks that are not listed were not run; nothing here says that a defence withstands them.</p>
{tables or "<p>There are no findings.</p>"}
<h2>Utility against leakage</h2>
<p><img src="data:image/png;base64,{plot}" alt="Per attack: the model's utility against the attack's success,
one marker per defence, with the baseline as a dashed line. The table holds the same figures."></p>
</main>
<footer><small>cutlayer {escape(__version__)}; a simulation: all parties ran in one process.</small></footer>
</body>
</html>
"""


def _table(task: str, rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in HEADINGS)
    body = "\n".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    title = f"<h2>{escape(task)}</h2>" if task else ""
    caption = f"<caption>Means over {_seeds(rows)}; intervals over {_over(rows)}.</caption>"
    return f'{title}<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Mapping[str, Any]) -> list[str]:
    start = [_text(row["defence"]), _text(row["attack"])]
    if row.get("status", "done") != "done":
        return [*start, f'<td colspan="{len(HEADINGS) - 2}">{escape(row["status"])}: {escape(row["reason"])}</td>']
    direction = "lower leaks more" if row["metric"] in LESS_IS_MORE else "higher leaks more"
    return [
        *start,
        _text(f"{row['attacker']} about the {row['target']} of {row['victim']}"),
        _number(f"{row['value']:.4g}", f"{row['metric']}, {direction}"),
        _number(f"{row['low']:.4g} to {row['high']:.4g}", ""),
        _number(f"{row['baseline']:.4g}", row["baseline_name"]),
        _number(f"{row['utility']:.4g}", row["utility_metric"]),
        _text(row["granted"]),
    ]


def _text(value: object) -> str:
    return f"<td>{escape(str(value))}</td>"


def _number(value: str, note: str) -> str:
    return f'<td class="number">{escape(value)}<br><small>{escape(note)}</small></td>'


def _seeds(rows: Sequence[Mapping[str, Any]]) -> str:
    counts = sorted({int(row["seeds"]) for row in rows})
    return " or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds")


def _over(rows: Sequence[Mapping[str, Any]]) -> str:
    return "the attacked rows or batches" if all(row["seeds"] == 1 for row in rows) else "seeds"
