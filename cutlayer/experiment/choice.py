"""Choice: which setup to take, under the user's constraints; the Pareto front, the runner-up, what would change it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutlayer.report.advantage import Estimate, Standing, heat, over_seeds, standing
from cutlayer.report.cells import setup_name

Row = Mapping[str, Any]
NONE = ("none", "")


@dataclass(frozen=True)
class Option:
    """One setup: what it costs, and how far the worst attack on it gets."""

    defence: str
    strength: str
    accuracy: float
    leakage: float  # the worst attack's advantage, 0 to 1
    worst: str  # that attack
    sealed: bool  # no attack is shown to get beyond its baseline
    bytes: float
    seconds: float

    @property
    def name(self) -> str:
        """As on the command line."""
        return setup_name(self.defence, self.strength)

    def beats(self, other: "Option") -> bool:
        """At least as good in everything, and better in something."""
        mine = (-self.accuracy, self.leakage, self.bytes)  # seconds are noisy: they break no tie
        theirs = (-other.accuracy, other.leakage, other.bytes)
        return mine != theirs and all(one <= two for one, two in zip(mine, theirs, strict=True))


def options(rows: Sequence[Row], threats: Sequence[str]) -> list[Option]:
    """Every setup that was attacked, with its worst attack among the threats."""
    setups: dict[tuple[str, str], dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        if row["status"] == "done" and row["target"] in threats:
            cells = setups.setdefault((row["defence"], row["strength"]), {})
            cells.setdefault((row["attack"], row["victim"]), []).append(row)
    return [_option(setup, cells) for setup, cells in setups.items()]


def _option(setup: tuple[str, str], cells: Mapping[tuple[str, str], list[Row]]) -> Option:
    gains: dict[tuple[str, str], tuple[str, Estimate]] = {
        attack: (found[0]["metric"], over_seeds(found)) for attack, found in cells.items()
    }
    worst = max(gains, key=lambda attack: heat(gains[attack][0], gains[attack][1].mean))
    metric, gain = gains[worst]
    leaks = (Standing.ABOVE, Standing.TURNED)
    every = [row for found in cells.values() for row in found]
    return Option(
        *setup,
        accuracy=_mean(every, "accuracy"),
        leakage=heat(metric, gain.mean),
        worst=worst[0],
        sealed=not any(standing(kind, one) in leaks for kind, one in gains.values()),
        bytes=_mean(every, "bytes"),
        seconds=_mean(every, "train_seconds"),
    )


def front(found: Sequence[Option]) -> list[Option]:
    """Setups that no other beats."""
    return [one for one in found if not any(other.beats(one) for other in found)]


def choose(rows: Sequence[Row], threats: Sequence[str], max_accuracy_loss: float) -> dict[str, Any] | None:
    """One named choice: of the setups that cost at most so many points of accuracy, the one that leaks least."""
    found = options(rows, threats)
    if not found:
        return None
    plain = next((one for one in found if (one.defence, one.strength) == NONE), max(found, key=lambda o: o.accuracy))
    least = plain.accuracy - max_accuracy_loss / 100
    allowed = sorted((o for o in found if o.accuracy >= least), key=_rank)
    best = allowed[0] if allowed else None
    second = allowed[1] if len(allowed) > 1 else None
    return {
        "choice": None if best is None else best.name,
        "runner_up": None if second is None else second.name,
        "constraints": [f"at most {max_accuracy_loss:g} points of accuracy lost", f"threat: {', '.join(threats)}"],
        "why": _why(best, plain, max_accuracy_loss),
        "what_would_change": _changes(found, best, plain),
        "pareto": [
            {
                "defence": one.defence,
                "strength": one.strength,
                "accuracy": one.accuracy,
                "leakage": one.leakage,
                "bytes": one.bytes,
                "seconds": one.seconds,
            }
            for one in sorted(front(found), key=_rank)
        ],
    }


def _rank(option: Option) -> tuple[float, float, float, str]:
    return (round(option.leakage, 3), -option.accuracy, option.bytes, option.name)


def _why(best: Option | None, plain: Option, loss: float) -> str:
    if best is None:
        return f"No setup keeps the model within {loss:g} points of {100 * plain.accuracy:.1f}%: allow more."
    cost = 100 * (plain.accuracy - best.accuracy)
    price = f"costs {cost:.1f} points of accuracy" if cost >= 0.05 else "costs no accuracy"
    text = f"{best.name} {price}, and the worst attack on it, {best.worst}, gets "
    text += f"{100 * best.leakage:.0f}% of the way from its baseline to perfect"
    if best.sealed:
        return text + "; no attack that was run is shown to get beyond its baseline."
    if best.name == plain.name:
        return text + ". No defence that was tried leaks less at this cost."
    text += f" (undefended {100 * plain.leakage:.0f}%)."
    return text + " No setup within these constraints brings every attack to its baseline."


def _changes(found: Sequence[Option], best: Option | None, plain: Option) -> list[str]:
    """What the answer would be under other constraints."""
    lines = []
    tighter = [one for one in found if best is None or _rank(one) < _rank(best)]
    for one in sorted(tighter, key=lambda o: -o.accuracy)[:2]:
        cost = 100 * (plain.accuracy - one.accuracy)
        lines.append(f"With {cost:.1f} points allowed, {one.name} leaks less ({100 * one.leakage:.0f}%).")
    if best is not None:
        cheaper = [one for one in found if one.bytes < 0.9 * best.bytes and one.accuracy >= best.accuracy - 0.005]
        for one in sorted(cheaper, key=_rank)[:1]:
            lines.append(f"If traffic counts most, {one.name} sends {one.bytes / best.bytes:.0%} of the bytes.")
    return lines or ["Nothing that was tried leaks less at any cost in accuracy."]


def _mean(rows: Sequence[Row], key: str) -> float:
    return float(sum(row[key] for row in rows) / len(rows))
