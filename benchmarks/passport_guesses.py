"""How many guesses passports withstand: `python -m benchmarks.passport_guesses` (22 minutes; needs MNIST).

FedAdOb argues that passports cannot be guessed. But a guess can be checked: under bad passports no picture explains
what a bottom says as well as under good ones. Trains LeNet with passports in quick mode, vertically and horizontally,
and lets an attacker guess 1, 4 and 16 times and keep the guess with the lowest objective. The mean error over several
attacks, in results/passport-guesses.csv.
"""

from collections.abc import Iterator

from rich.progress import track

from benchmarks.results import write_table
from cutlayer.auditing.attacking import attack_run
from cutlayer.papers.fedadob import tables as fedadob
from cutlayer.papers.fedadob_horizontal import tables as fedadob_horizontal
from cutlayer.papers.job import Job
from cutlayer.settings import read_attacks
from cutlayer.training import using_threads

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
            findings = [finding for seed in SEEDS for finding in attack_run(run, attack, seed=seed)]
            errors = [finding.value for finding in findings]
            yield {
                "learning": learning,
                "mean range": mean,
                "guesses": guesses,
                "error": round(sum(errors) / len(errors), 4),
                "least": round(min(errors), 4),
                "largest": round(max(errors), 4),
                "mean picture": round(findings[0].baseline, 4),
            }


def main() -> None:
    """Run, and write the table."""
    with using_threads(1):
        table = list(rows())
    write_table("passport-guesses.csv", "passport_guesses", table)
    for row in table:
        print(row)


if __name__ == "__main__":
    main()
