"""Plotly figures as plain data. The page draws them; colours that begin with @ follow its light or dark theme.

Colours are Okabe and Ito's, safe for colour-blind readers, and every defence has a symbol of its own:
no colour carries a meaning alone. Plotly reads a little HTML in texts, so names are escaped.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from statistics import mean
from typing import Any

from cutlayer.finding import Roc
from cutlayer.json_types import Json
from cutlayer.metrics.utility import Utility
from cutlayer.report.advantage import Estimate
from cutlayer.report.cells import MatrixCell, extras, group, unique, worst
from cutlayer.report.record import Record

View = dict[str, Json]  # data and layout
Look = tuple[str, str, str]  # colour, symbol and dash

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SYMBOLS = ("square", "triangle-up", "diamond", "triangle-down", "cross", "x", "pentagon", "hexagram", "star", "bowtie")
DASHES = ("solid", "dash", "dot", "dashdot")
LEAST_RATE = 1e-4  # where a logarithmic axis of false-positive rates begins
TICKS = {"tickvals": [1e-4, 1e-3, 1e-2, 0.1, 1], "ticktext": ["0.01%", "0.1%", "1%", "10%", "100%"]}
WORST = "worst attack"


def style(cells: Sequence[MatrixCell], name_of: Callable[[MatrixCell], str]) -> dict[str, Look]:
    """Colour, symbol and dash by the name of every defence; undefended is in the colour of the text."""
    looks = {name_of(cell): ("@ink", "circle", "solid") for cell in cells if cell.is_open}
    for i, name in enumerate(unique(name_of(cell) for cell in cells if not cell.is_open)):
        looks[name] = (COLOURS[i % len(COLOURS)], SYMBOLS[i % len(SYMBOLS)], DASHES[i // len(COLOURS) % len(DASHES)])
    return looks


def trade_off(cells: Sequence[MatrixCell]) -> dict[str, View]:
    """Utility against leakage under one threat: the worst attack first, then each attack in its own metric."""
    done = [cell for cell in cells if cell.done and cell.accuracy is not None]
    looks = style(done, lambda cell: cell.defence)
    setups = group(done, lambda cell: (cell.defence, cell.strength))
    tops = [top for attacks in setups.values() if (top := worst(attacks)) is not None]
    views = {WORST: _view(_curves(tops, looks, way=True), _axes(tops, way=True))} if tops else {}
    for line in group(done, lambda cell: (cell.attack, cell.attacker, cell.victim)).values():
        name = f"{line[0].attack}: {line[0].about}"
        views[name] = _view(_curves(line, looks, way=False), _axes(line, way=False))
    return views


def _curves(cells: Sequence[MatrixCell], looks: Mapping[str, Look], *, way: bool) -> list[dict[str, Any]]:
    traces = []
    for defence, sweep in group(cells, lambda cell: cell.defence).items():
        colour, symbol, dash = looks[defence]
        across = [_scaled(cell.gain, 100) if way else cell.value for cell in sweep]
        up = [cell.accuracy or Estimate(0.0, None, None) for cell in sweep]
        trace = {
            "type": "scatter",
            "mode": "lines+markers" if len(sweep) > 1 else "markers",
            "name": escape(defence, quote=False),
            "x": [e.mean for e in across],
            "y": [e.mean for e in up],
            "error_x": _bars(across, colour),
            "error_y": _bars(up, colour),
            "text": [escape(_hover(cell), quote=False) for cell in sweep],
            "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}<extra></extra>",
            "marker": {"symbol": symbol, "color": colour, "size": 11, "line": {"color": "@ink", "width": 1}},
            "line": {"color": colour, "dash": dash, "width": 2},
        }
        traces.append(trace)
    return traces


def _hover(cell: MatrixCell) -> str:
    return f"{cell.setup}: {cell.attack}, {cell.about}"


def _scaled(estimate: Estimate, by: float) -> Estimate:
    low, high = (None if end is None else by * end for end in (estimate.low, estimate.high))
    return Estimate(by * estimate.mean, low, high)


def _bars(estimates: Sequence[Estimate], colour: str) -> dict[str, Any]:
    plus = [0.0 if estimate.high is None else max(0.0, estimate.high - estimate.mean) for estimate in estimates]
    minus = [0.0 if estimate.low is None else max(0.0, estimate.mean - estimate.low) for estimate in estimates]
    return {
        "type": "data",
        "symmetric": False,
        "array": plus,
        "arrayminus": minus,
        "color": colour,
        "thickness": 1.2,
        "width": 4,
    }


def _axes(cells: Sequence[MatrixCell], *, way: bool) -> dict[str, Any]:
    first = cells[0]
    utility = escape(Utility.title_of(first.done[0]["utility_metric"]), quote=False)
    baseline = 0.0 if way else mean(cell.baseline for cell in cells)
    less = first.measure.less_is_more and not way
    leak = "way from baseline to perfect, %" if way else f"{first.measure.name} of the attack"
    lines = [_dashed(baseline)]
    if not way and (low := min(c.baseline for c in cells)) < (high := max(c.baseline for c in cells)):
        lines.append(
            {**_dashed(low), "type": "rect", "x1": high, "fillcolor": "@line", "opacity": 0.4, "layer": "below"}
        )
    note = {"x": baseline, "y": 1, "xref": "x", "yref": "paper", "text": "baseline", "showarrow": False}
    return {
        "xaxis": {"title": {"text": f"{leak} (more leaks →)"}, "autorange": "reversed" if less else True},
        "yaxis": {"title": {"text": f"{utility} of the model"}},
        "shapes": lines,
        "annotations": [{**note, "yanchor": "bottom", "font": {"color": "@soft"}}],
    }


def _dashed(at: float) -> dict[str, Any]:
    line = {"color": "@soft", "dash": "dash", "width": 1.5}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def roc(record: Record, cells: Sequence[MatrixCell]) -> dict[str, View]:
    """True against false positives, a view per attack; the first seed that has a curve is drawn."""
    views = {}
    looks = style(cells, lambda cell: cell.setup)
    for line in group(cells, lambda cell: (cell.attack, cell.attacker, cell.victim)).values():
        curves = [(cell, extras(record, cell, lambda extra: extra.get("roc"))) for cell in line]
        traces = [_roc(cell, known[0][1], looks[cell.setup]) for cell, known in curves if known]
        if traces:
            rates = [LEAST_RATE ** (1 - step / 60) for step in range(61)]  # a straight line bends on this axis
            chance = {"type": "scatter", "mode": "lines", "name": "baseline: chance", "x": rates, "y": rates}
            traces.append({**chance, "line": {"color": "@soft", "dash": "dash", "width": 1.5}})
            axes = {
                "xaxis": {"title": {"text": "false-positive rate (logarithmic)"}, "type": "log", "range": [-4, 0]}
                | TICKS,
                "yaxis": {"title": {"text": "true-positive rate"}, "range": [0, 1.02]},
            }
            views[f"{line[0].attack}: {line[0].about}"] = _view(traces, axes)
    return views


def _roc(cell: MatrixCell, curve: Roc, look: Look) -> dict[str, Any]:
    colour, symbol, dash = look
    marks = {"symbol": symbol, "color": colour, "size": 7, "maxdisplayed": 8}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape(cell.setup, quote=False),
        "x": [max(LEAST_RATE, float(rate)) for rate in curve["fpr"]],
        "y": [float(rate) for rate in curve["tpr"]],
        "marker": marks,
        "line": {"color": colour, "dash": dash, "width": 2, "shape": "hv"},
    }


def correlations(record: Record, cells: Sequence[MatrixCell]) -> dict[str, View]:
    """How columns go together, in truth and as guessed: a view per attack and setup, of the first seed."""
    views = {}
    for cell in cells:
        if known := extras(record, cell, lambda extra: extra.get("correlations")):
            pair = known[0][1]
            sides = ((pair["truth"], "in truth", "x"), (pair["guess"], "as guessed", "x2"))
            traces = [
                {"type": "heatmap", "z": matrix, "name": title, "xaxis": axis, "zmin": -1, "zmax": 1}
                | {"colorscale": "RdBu", "reversescale": True, "showscale": axis == "x2"}
                for matrix, title, axis in sides
            ]
            axes = {
                "xaxis": {"title": {"text": "column, in truth"}, "domain": [0, 0.47]},
                "xaxis2": {"title": {"text": "column, as guessed"}, "domain": [0.53, 1]},
                "yaxis": {"title": {"text": "column"}, "autorange": "reversed"},
            }
            views[f"{cell.setup}: {cell.attack}, {cell.about}"] = _view(traces, axes)
    return views


def bars(spending: Mapping[str, Mapping[str, float | None]], titles: Mapping[str, str]) -> dict[str, View]:
    """One bar per setup, a view per cost."""
    views = {}
    for key, title in titles.items():
        known = {escape(setup, quote=False): entry[key] for setup, entry in spending.items() if entry[key] is not None}
        if known:
            trace: dict[str, Any] = {"type": "bar", "orientation": "h", "y": list(known), "x": list(known.values())}
            trace |= {"marker": {"color": COLOURS[0]}, "texttemplate": "%{x:.3s}", "hoverinfo": "x+y"}
            axes = {"xaxis": {"title": {"text": title}, "rangemode": "tozero"}, "yaxis": {"autorange": "reversed"}}
            views[title] = _view([trace], axes | {"showlegend": False, "height": 170 + 28 * len(known)})
    return views


def _view(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> View:
    return {"data": list(traces), "layout": dict(layout)}
