"""cutlayer list: every attack, defence, cut, dataset, model and paper."""

from collections.abc import Callable
from typing import Annotated

from typer import Argument, Option

Row = dict[str, object]


def list_(
    what: Annotated[str, Argument(help="attacks, defences, cuts, datasets, models, papers or all.")] = "all",
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Name every attack, defence, cut, dataset, model and paper: a line each, with who attacks whom."""
    from cutlayer._validate import one_of
    from cutlayer.cli import show

    one_of("list", what, [*KINDS, "all"])
    chosen = {kind: list_rows() for kind, list_rows in KINDS.items() if what in (kind, "all")}
    if json:
        show.dump(chosen)
        return
    for kind, rows in chosen.items():
        show.table(kind, list(rows[0]), [list(row.values()) for row in rows])


def _attacks() -> list[Row]:
    import cutlayer.attacks
    from cutlayer.attack import Attack
    from cutlayer.spec import find

    return [
        {"name": name, "by": a.by.value, "target": a.target.value, "needs": str(a().asks), "about": _first_line(a)}
        for name, a in find(cutlayer.attacks, Attack).items()
    ]


def _defences() -> list[Row]:
    import cutlayer.defences
    from cutlayer.defence import Defence
    from cutlayer.spec import describe, find

    classes = find(cutlayer.defences, Defence).values()
    return [{"name": describe(cls(), full=True), "about": _first_line(cls)} for cls in classes]


def _cuts() -> list[Row]:
    import cutlayer.cuts
    from cutlayer.cut import Cut
    from cutlayer.spec import describe, find

    classes = find(cutlayer.cuts, Cut).values()
    return [{"name": describe(cls(), full=True), "about": _first_line(cls)} for cls in classes]


def _datasets() -> list[Row]:
    from cutlayer import data

    return [
        {"name": a.name, "rows": a.rows, "columns": a.columns, "classes": a.classes, "about": a.about}
        for a in data.describe()
    ]


def _models() -> list[Row]:
    from cutlayer.models import named

    return [
        {"name": name, "part": part, "about": _first_line(maker)}
        for part, makers in (("bottom", named.bottoms()), ("top", named.tops()))
        for name, maker in makers.items()
    ]


def _papers() -> list[Row]:
    from cutlayer.papers import papers

    return [{"name": paper.name, "title": paper.title, "mechanisms": paper.mechanisms} for paper in papers()]


def _first_line(thing: object) -> str:
    import inspect

    return (inspect.getdoc(thing) or "").splitlines()[0]


KINDS: dict[str, Callable[[], list[Row]]] = {
    "attacks": _attacks,
    "defences": _defences,
    "cuts": _cuts,
    "datasets": _datasets,
    "models": _models,
    "papers": _papers,
}
