"""Choice: which setup to take, under the user's constraints; the Pareto front, the runner-up, what would change it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cutlayer.finding import Status
from cutlayer.report.advantage import Estimate, Standing, heat, over_seeds, standing
from cutlayer.report.record import Choice
from cutlayer.report.row import Row
from cutlayer.setup import Setup, setup_of

LEAKS = (Standing.ABOVE, Standing.TURNED)


@dataclass(frozen=True)
class Option:
    """One setup: what it costs, and how far the worst attack on it gets."""

    setup: Setup
    accuracy: float
    leakage: float  # the worst attack's advantage, 0 to 1
    worst: str  # that attack
    sealed: bool  # no attack is shown to get beyond its baseline
    bytes: float
    seconds: float

    @property
    def name(self) -> str:
        """As on the command line."""
        return self.setup.spelling

    @property
    def costs(self) -> tuple[float, float, float]:
        """What should be low; seconds are noisy, so they break no tie."""
        return (-self.accuracy, self.leakage, self.bytes)

    def beats(self, other: "Option") -> bool:
        """At least as good in everything, and better in something."""
        pairs = zip(self.costs, other.costs, strict=True)
        return self.costs != other.costs and all(mine <= theirs for mine, theirs in pairs)


def options(rows: Sequence[Row], threats: Sequence[str]) -> list[Option]:
    """Every setup that was attacked, with its worst attack among the threats."""
    setups: dict[Setup, dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        if row["status"] is Status.DONE and row["target"] in threats:
            attacks = setups.setdefault(setup_of(row), {})
            attacks.setdefault((row["attack"], row["victim"]), []).append(row)
    return [_option(setup, attacks) for setup, attacks in setups.items()]


def _option(setup: Setup, attacks: Mapping[tuple[str, str], list[Row]]) -> Option:
    gains: dict[tuple[str, str], tuple[str, Estimate]] = {
        attack: (seeds[0]["metric"], over_seeds(seeds)) for attack, seeds in attacks.items()
    }
    worst = max(gains, key=lambda attack: heat(gains[attack][0], gains[attack][1].mean))
    metric, gain = gains[worst]
    rows = [row for seeds in attacks.values() for row in seeds]
    return Option(
        setup,
        accuracy=_mean(row["accuracy"] for row in rows),
        leakage=heat(metric, gain.mean),
        worst=worst[0],
        sealed=not any(standing(metric, gain) in LEAKS for metric, gain in gains.values()),
        bytes=_mean(row["bytes"] for row in rows),
        seconds=_mean(row["train_seconds"] for row in rows),
    )


def front(setups: Sequence[Option]) -> list[Option]:
    """Setups that no other beats."""
    return [option for option in setups if not any(other.beats(option) for other in setups)]


def choose(rows: Sequence[Row], threats: Sequence[str], max_accuracy_loss: float) -> Choice | None:
    """Name one choice: of the setups that cost at most so many points of accuracy, the one that leaks least."""
    setups = options(rows, threats)
    if not setups:
        return None
    undefended = [option for option in setups if option.setup.is_open]
    plain = undefended[0] if undefended else max(setups, key=lambda option: option.accuracy)
    least = plain.accuracy - max_accuracy_loss / 100
    allowed = sorted((option for option in setups if option.accuracy >= least), key=_rank)
    best = allowed[0] if allowed else None
    second = allowed[1] if len(allowed) > 1 else None
    return {
        "choice": None if best is None else best.name,
        "runner_up": None if second is None else second.name,
        "constraints": [f"at most {max_accuracy_loss:g} points of accuracy lost", f"threat: {', '.join(threats)}"],
        "why": _why(best, plain, max_accuracy_loss),
        "what_would_change": _changes(setups, best, plain),
        "pareto": [
            {
                "defence": option.setup.names,
                "strength": option.setup.strength,
                "accuracy": option.accuracy,
                "leakage": option.leakage,
                "bytes": option.bytes,
                "seconds": option.seconds,
            }
            for option in sorted(front(setups), key=_rank)
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


def _changes(setups: Sequence[Option], best: Option | None, plain: Option) -> list[str]:
    """What the answer would be under other constraints."""
    lines = []
    tighter = [option for option in setups if best is None or _rank(option) < _rank(best)]
    for option in sorted(tighter, key=lambda option: -option.accuracy)[:2]:
        cost = 100 * (plain.accuracy - option.accuracy)
        lines.append(f"With {cost:.1f} points allowed, {option.name} leaks less ({100 * option.leakage:.0f}%).")
    if best is not None:
        near = [option for option in setups if option.accuracy >= best.accuracy - 0.005]
        for option in sorted((option for option in near if option.bytes < 0.9 * best.bytes), key=_rank)[:1]:
            share = option.bytes / best.bytes
            lines.append(f"If traffic counts most, {option.name} sends {share:.0%} of the bytes.")
    return lines or ["Nothing that was tried leaks less at any cost in accuracy."]


def _mean(values: Iterable[float | None]) -> float:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known)
