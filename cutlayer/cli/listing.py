"""cutlayer list: what there is."""

from typing import Annotated

from typer import Argument, Option


def list_(
    what: Annotated[str, Argument(help="attacks, defences, cuts, datasets, models, papers or all.")] = "all",
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Name every attack, defence, cut, dataset, model and paper: a line each, with who attacks whom."""
    import inspect

    import cutlayer.attacks
    import cutlayer.cuts
    import cutlayer.defences
    from cutlayer import data
    from cutlayer._validate import one_of
    from cutlayer.attack import Attack
    from cutlayer.cli import show
    from cutlayer.cut import Cut
    from cutlayer.defence import Defence
    from cutlayer.models import named
    from cutlayer.papers import PAPERS
    from cutlayer.spec import describe, find

    def first_line(thing: object) -> str:
        return (inspect.getdoc(thing) or "").splitlines()[0]

    attacks: list[dict[str, object]] = [
        {"name": n, "by": c.by.value, "target": c.target.value, "needs": str(c().asks), "about": first_line(c)}
        for n, c in find(cutlayer.attacks, Attack).items()
    ]
    defences: list[dict[str, object]] = [
        {"name": describe(c(), full=True), "about": first_line(c)} for c in find(cutlayer.defences, Defence).values()
    ]
    cuts: list[dict[str, object]] = [
        {"name": describe(c(), full=True), "about": first_line(c)} for c in find(cutlayer.cuts, Cut).values()
    ]
    datasets: list[dict[str, object]] = [
        {"name": a.name, "rows": a.rows, "columns": a.columns, "classes": a.classes, "about": a.about}
        for a in data.describe()
    ]
    models: list[dict[str, object]] = [
        {"name": name, "part": part, "about": first_line(make)}
        for part, known in (("bottom", named.BOTTOMS), ("top", named.TOPS))
        for name, make in known.items()
    ]
    papers: list[dict[str, object]] = [{"name": p.name, "title": p.title, "mechanisms": p.mechanisms} for p in PAPERS]
    everything: dict[str, list[dict[str, object]]] = {
        "attacks": attacks,
        "defences": defences,
        "cuts": cuts,
        "datasets": datasets,
        "models": models,
        "papers": papers,
    }
    one_of("list", what, [*everything, "all"])
    chosen = everything if what == "all" else {what: everything[what]}
    if json:
        show.dump(chosen)
        return
    for title, rows in chosen.items():
        show.table(title, list(rows[0]), [list(row.values()) for row in rows])
