"""The first half of a report, for those who must answer for it: verdict, who learns what, how sure, what not."""

from collections.abc import Mapping, Sequence

from cutlayer.finding import Status, Target
from cutlayer.report.blocks import (
    Block,
    Entry,
    Items,
    Section,
    Table,
    Text,
    counted,
    figure,
    interval,
    joined,
    percent,
    with_interval,
)
from cutlayer.report.cells import MatrixCell, by_setup, cells_of, group, per_run, threats, unique, worst
from cutlayer.report.columns import exposed
from cutlayer.report.record import Record
from cutlayer.setup import read_setup, setup_of

QUESTION = {
    Target.LABELS: "Who could learn the labels?",
    Target.FEATURES: "Who could learn somebody's columns?",
    Target.OUTCOME: "Who could force an outcome?",
}
ASSUMED = (
    "Parties follow the protocol and are curious: each tries to learn from what it sees and holds anyway.",
    "A baseline is the best guess of an attacker with the same rows and the same side knowledge, but without what "
    "crossed the cut. Only the distance between a figure and its baseline is leakage.",
    "Way to perfect: 0% at the baseline, 100% for an attack without a mistake, below 0% for one worse than guessing.",
    "Everything ran as a simulation on one machine; the same messages cross between two organisations.",
)
NEVER_TESTED = (
    "Parties that collude: every attacker stood alone.",
    "Parties that cheat in training, by poisoned messages or a hijacked gradient.",
    "Attackers who know more than was granted, or who adapt their attack to the defence in use.",
    "What the finished model's answers tell those who only query it, such as who was in the training rows.",
    "Side channels: timing, sizes of messages, faults, and the machines themselves.",
    "Attacks that nobody has published yet. That an attack failed is no proof that none succeeds.",
)


def sections(record: Record) -> list[Section]:
    """All of the first half."""
    cells = cells_of(record)
    parts = [
        Section("verdict", "Verdict", verdict(record, cells)),
        Section("who", "Who could learn what", [_who(cells, threat) for threat in threats(cells)] or [_nothing()]),
        Section("choice", "Recommendation", choice(record)),
        Section("sure", "How sure we are", sure(record, cells)),
        Section("setups", "Notes on the setups", setups(record)),
        Section("assumed", "What was assumed", assumed(cells)),
        Section("untested", "What was not tested", untested(cells)),
    ]
    return [section for section in parts if section.blocks and (section.name != "choice" or record.choice is not None)]


def verdict(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """Sentences from the numbers alone."""
    blocks: list[Block] = []
    if not record.finished:
        lost = sum(row["status"] is Status.MISSING for row in record.every)
        every = len(record.every)
        blocks.append(Text(f"This study is unfinished: {lost} of {every} findings are missing.", strong=True))
    setups = by_setup(cell for cell in cells if cell.done)
    if not setups:
        return [*blocks, Text("No attack gave a figure, so nothing can be said.", strong=True)]
    tops: list[MatrixCell] = []
    undefended = [cell for cell in cells if cell.done and cell.is_open]
    if leaks := [cell for cell in undefended if not cell.harmless]:
        best = [worst(attacks) for attacks in group(leaks, lambda cell: cell.about).values()]
        tops = sorted([cell for cell in best if cell is not None], key=lambda cell: -cell.heat)
        parts = [f"{cell.about}, {percent(cell.heat)} of the way from guessing to perfect" for cell in tops]
        blocks.append(Text(f"Without a defence, {'; '.join(parts)}.", strong=True))
    elif undefended:
        blocks.append(Text("Even without a defence, no attack was shown to beat its baseline.", strong=True))
    blocks.append(Text(_defended(setups, by_setup(cells)), strong=True))
    column = exposed(record, undefended)
    items = [f"Undefended, {cell.about}: {reached(cell)}." for cell in tops] + ([column] if column else [])
    return [*blocks, Items(items)] if items else blocks


def _defended(setups: dict[str, list[MatrixCell]], every: dict[str, list[MatrixCell]]) -> str:
    tested = {name: attacks for name, attacks in setups.items() if not attacks[0].is_open}
    if not tested:
        return "No defence was tested."
    safe = [name for name, attacks in tested.items() if all(cell.harmless for cell in attacks)]
    if safe:
        how = "holds" if len(safe) == 1 else "hold"
        rest = f"; the other {len(tested) - len(safe)} do not" if len(safe) < len(tested) else ""
        named = joined([name + _reserve(every.get(name, [])) for name in safe])
        of = counted(len(tested), "defended setup")
        return f"Of {of}, {named} {how} every tested attack within its interval of the baseline{rest}."
    tops = {name: cell for name, attacks in tested.items() if (cell := worst(attacks)) is not None}
    best = min(tops, key=lambda name: tops[name].heat)
    return (
        f"None of {counted(len(tested), 'defended setup')} holds every tested attack within its interval of the "
        f"baseline. The nearest is {best}: there {tops[best].about}, {percent(tops[best].heat)} of the way from "
        f"guessing to perfect ({reached(tops[best])})."
    )


def _reserve(cells: Sequence[MatrixCell]) -> str:
    """What a clean sheet does not cover: attacks that should have run on this setup and did not."""
    lost = sum(cell.status in (Status.FAILED, Status.MISSING) for cell in cells)
    return f" ({counted(lost, 'attack')} failed or missing)" if lost else ""


def reached(cell: MatrixCell) -> str:
    """What the attack reached, beside its baseline."""
    return (
        f"{cell.attack} reaches {cell.metric} {figure(cell.value.mean)} ({interval(cell.value)}) where the best guess "
        f"without the messages has {figure(cell.baseline)}"
    )


def _nothing() -> Text:
    return Text("There are no findings.")


def _who(cells: Sequence[MatrixCell], threat: Target) -> Block:
    """The worst attack per victim and setup."""
    head = ["setup", "worst attack", "measured by", "figure", "95% interval", "baseline", "baseline is"]
    head += ["way to perfect", "reading", "model's utility"]
    rows: list[list[Entry]] = []
    who: list[str] = []
    for attacks in group((c for c in cells if c.target == threat and c.done), lambda cell: cell.about).values():
        for setup, alike in by_setup(attacks).items():
            if (cell := worst(alike)) is None:
                continue
            direction = f", {cell.measure.direction}" if cell.measure.less_is_more else ""
            who.append(cell.about)
            row: list[Entry] = [setup, cell.attack]
            row += [cell.metric + direction, cell.value.mean, interval(cell.value), cell.baseline]
            row += [cell.done[0]["baseline_name"], percent(cell.gain.mean), cell.standing.value]
            rows.append([*row, with_interval(cell.accuracy)])
    names = [threat] * len(rows)
    caption = f"{QUESTION[threat]} The attack that gets furthest, per setup."
    if len(set(who)) == 1:
        caption += f" In all lines {who[0]}."
    elif who:
        head, rows = ["who", *head], [[about, *row] for about, row in zip(who, rows, strict=True)]
    return Table(caption, head, rows, names) if rows else Text(f"{QUESTION[threat]} No attack gave a figure.")


def choice(record: Record) -> list[Block]:
    """The recommendation, or that none achieves it."""
    advice = record.choice
    if advice is None:
        return [Text("No recommendation was asked for.")]
    named = advice["choice"]
    first = (
        f"Use {'no defence' if read_setup(named).is_open else named}."
        if named
        else "None of the setups tested achieves what was asked for."
    )
    change = advice["what_would_change"]
    items = [f"Asked for: {joined(list(advice['constraints'])) or 'nothing in particular'}."]
    items += [f"Why: {advice['why']}"] if advice["why"] else []
    items += [f"Runner-up: {advice['runner_up']}."] if advice["runner_up"] else []
    items += [
        f"What would change the answer: {text}" for text in ([change] if isinstance(change, str) else change) if text
    ]
    rows: list[list[Entry]] = [
        [
            setup_of(option).spelling,
            option["accuracy"],
            _way(option["leakage"]),
            option["bytes"],
            option["seconds"],
        ]
        for option in advice["pareto"]
    ]
    head = ["setup", "utility", "worst leakage, way to perfect", "bytes per training", "seconds per training"]
    caption = "Setups that no other beats in utility, leakage, bytes and time at once (the Pareto front)."
    return [Text(first, strong=True), Items(items), *([Table(caption, head, rows)] if rows else [])]


def _way(leakage: float | None) -> str:
    return "–" if leakage is None else percent(leakage)


def sure(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """Seeds and intervals."""
    counts = sorted({len(cell.done) for cell in cells if cell.done})
    seeds = joined([str(count) for count in counts], "or") or "no"
    once = [cell for cell in cells if len(cell.done) == 1]
    word = "seed" if counts == [1] else "seeds"
    runs = counted(sum(len(seeds_of_setup) for seeds_of_setup in per_run(record).values()), "training")
    items = [f"Figures are means over {seeds} {word}, from {runs}: each seed trains and attacks anew."]
    items.append("Intervals are 95% intervals by Student's t over seeds, paired with each seed's own baseline.")
    if once:
        items.append(
            f"{counted(len(once), 'cell')} had one seed only: the interval there is over rows or batches of that "
            "seed, and does not show how another training would turn out."
        )
    even = sum(cell.harmless for cell in cells if cell.done)
    done = sum(bool(cell.done) for cell in cells)
    items.append(f"{even} of {done} cells with a figure were not shown to be above their baseline.")
    if (rows := record.facts.get("test_rows")) is not None:
        items.append(f"Utility is measured on {rows} test rows.")
    return [Items(items)]


def setups(record: Record) -> list[Block]:
    """What the trainings said: that one diverged, or the privacy that a defence spent."""
    noted = record.facts.get("setup_notes")
    by_setup = noted.items() if isinstance(noted, Mapping) else ()
    items = [f"{setup}: {note}" for setup, notes in by_setup if isinstance(notes, list | tuple) for note in notes]
    return [Items(items)] if items else []


def assumed(cells: Sequence[MatrixCell]) -> list[Block]:
    """Side knowledge, in words."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        if cell.status is Status.MISSING:
            continue
        rows[(cell.attack, cell.about, cell.first["granted"] or "nothing", cell.first["paper"])] = [cell.target]
    head = ["attack", "threat model", "knowledge granted to the attacker", "paper"]
    names = [targets[0] for targets in rows.values()]
    return [Items(ASSUMED), Table("What each attacker was told.", head, [list(row) for row in rows], names)]


def untested(cells: Sequence[MatrixCell]) -> list[Block]:
    """Cells without a figure and why, then what no audit of this kind covers."""
    gaps: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        for (status, reason), count in cell.gaps.items():
            of = f" ({counted(count, 'seed')})" if len(cell.rows) > count else ""
            gaps.setdefault((status, cell.attack, reason), []).append(cell.setup + of)
    rows = [
        [status, attack, joined(unique(setups)), reason] for (status, attack, reason), setups in sorted(gaps.items())
    ]
    head = ["state", "attack", "setups", "reason"]
    listed = [Table("Attacks without a figure.", head, rows)] if rows else [Text("Every cell has a figure.")]
    together = any("+" in cell.attacker for cell in cells)
    return [*listed, Items(NEVER_TESTED[1:] if together else NEVER_TESTED)]
