"""How many guesses passports withstand: `python -m benchmarks.passport_guesses` (22 minutes; needs MNIST).

FedAdOb argues that passports cannot be guessed. But a guess can be checked: under bad passports no picture explains
what a bottom says as well as under good ones. Trains LeNet with passports in quick mode, vertically and horizontally,
and lets an attacker guess 1, 4 and 16 times and keep the guess with the lowest objective. The mean error over several
attacks, in results/passport-guesses.csv.
"""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from rich.progress import track

from cutlayer.auditing.attacking import attack_run
from cutlayer.files import write_text
from cutlayer.papers.fedadob import tables as fedadob
from cutlayer.papers.fedadob_horizontal import tables as fedadob_horizontal
from cutlayer.papers.job import Job
from cutlayer.settings import read_attacks
from cutlayer.training import using_threads

FILE = Path(__file__).parents[1] / "results/passport-guesses.csv"
COMMAND = "python -m benchmarks.passport_guesses"
MEANS = (2, 10, 50)
GUESSES = (1, 4, 16)
SEEDS = range(4)
SEARCH = "images=30,steps=300"


def jobs() -> Iterator[tuple[str, int, Job]]:
    """A training per way of learning and range of means."""
    for mean in MEANS:
        passport = f"passport:mean_range={mean}.0,variance=1.0"
        yield "vertical", mean, fedadob.job("mnist", passport, "features", True)
        shared = fedadob_horizontal.job("mnist", f"{passport},where=bottom", "private-bottom", "weights", True)
        yield "horizontal", mean, shared


def rows() -> Iterator[dict[str, object]]:
    """Train, attack, and say by how much attackers err."""
    for learning, mean, job in track(list(jobs()), "training and attacking"):
        unit = job.unit()
        run = unit.train(unit.task())
        for guesses in GUESSES:
            attack = read_attacks([f"passport-inversion:{SEARCH},assume=guess,restarts={guesses}"])
            found = [finding for seed in SEEDS for finding in attack_run(run, attack, seed=seed)]
            errors = [finding.value for finding in found]
            yield {
                "learning": learning,
                "mean range": mean,
                "guesses": guesses,
                "error": round(sum(errors) / len(errors), 4),
                "least": round(min(errors), 4),
                "largest": round(max(errors), 4),
                "mean picture": round(found[0].baseline, 4),
            }


def main() -> None:
    """Run, and write the table."""
    with using_threads(1):
        made = list(rows())
    text = StringIO(f"# {COMMAND}\n")
    text.seek(0, 2)
    writer = csv.DictWriter(text, list(made[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    write_text(FILE, text.getvalue())
    print(text.getvalue(), end="")


if __name__ == "__main__":
    main()
