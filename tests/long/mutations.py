"""Mutations: twelve places broken one at a time, and the tests that notice. A test that cannot fail proves nothing.

    python tests/long/mutations.py    # minutes; writes results/mutations.csv; exit code 1 if one goes unnoticed

Each mutation is made in a copy of the tree, and only the tests of its room run.
"""

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "mutations.csv"
NAMED = 5  # failing tests that are named for each


@dataclass(frozen=True)
class Mutation:
    """A change of one line that makes the code wrong."""

    wrong: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


MUTATIONS = (
    Mutation(
        "a view holds everybody's messages",
        "cutlayer/view.py",
        "if {c.sender, c.receiver} & parties)",
        "if parties)",
        ("tests/test_view.py",),
    ),
    Mutation(
        "the judge grants one label more than was asked for",
        "cutlayer/judge.py",
        "train, asks.labels, generator",
        "train, asks.labels + 1, generator",
        ("tests/test_judge.py", "tests/contract/test_attacks.py"),
    ),
    Mutation(
        "gradients leave unprotected",
        "cutlayer/party.py",
        "gradients[name] = protect(self.protectors, gradient, replace(local, peer=name, retrace=retrace))",
        "gradients[name] = gradient",
        ("tests/test_party.py",),
    ),
    Mutation(
        "all epochs have the same order",
        "cutlayer/session.py",
        'generator(self.seed, "order", epoch)',
        'generator(self.seed, "order", 0)',
        ("tests/test_joint.py", "tests/test_session.py"),
    ),
    Mutation(
        "max-norm stretches to the mean norm",
        "cutlayer/defences/max_norm.py",
        "largest = norm.max()",
        "largest = norm.mean()",
        ("tests/defences/test_max_norm.py",),
    ),
    Mutation(
        "a tie counts as a win in AUC",
        "cutlayer/metrics/utility.py",
        "rankdata(scores)",
        'rankdata(scores, method="max")',
        ("tests/metrics",),
    ),
    Mutation(
        "the secure sum's masks do not cancel",
        "cutlayer/crypto/agreement.py",
        "stream if self.name < peer else -stream",
        "stream",
        ("tests/crypto/test_agreement.py", "tests/cuts/test_secure_sum.py"),
    ),
    Mutation(
        "a peer's infinite numbers are accepted",
        "cutlayer/net/wire/frame.py",
        'if header.wire_dtype.kind == "f" and 0 in np.isfinite(numbers).tobytes():',
        "if False:",
        ("tests/net/wire",),
    ),
    Mutation(
        "a ledger's line does not depend on the line before",
        "cutlayer/net/party/ledger.py",
        "(before + json.dumps",
        "(json.dumps",
        ("tests/net/party/test_ledger.py",),
    ),
    Mutation(
        "the recommendation takes the setup that leaks most",
        "cutlayer/experiment/choice.py",
        "(round(option.leakage, 3)",
        "(-round(option.leakage, 3)",
        ("tests/experiment/test_choice.py",),
    ),
    Mutation(
        "a setup's cut is forgotten",
        "cutlayer/settings.py",
        "cut=chosen[0] if chosen else self.cut",
        "cut=self.cut",
        ("tests/test_settings.py", "tests/experiment/test_study.py"),
    ),
    Mutation(
        "the interval over seeds has no width",
        "cutlayer/metrics/interval.py",
        "mean - margin, mean + margin",
        "mean, mean",
        ("tests/metrics/test_interval.py",),
    ),
)


def failing(mutation: Mutation, tree: Path) -> list[str]:
    """The tests of its room that fail under a mutation."""
    path = tree / mutation.file
    text = path.read_text()
    if mutation.before not in text:
        raise SystemExit(f"{mutation.file} no longer holds {mutation.before!r}: bring this list up to date.")
    path.write_text(text.replace(mutation.before, mutation.after))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", "--tb=no", *mutation.tests]
    try:
        output = subprocess.run(command, cwd=tree, capture_output=True, text=True).stdout
    finally:
        path.write_text(text)
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)


def main() -> int:
    """Try all, and write down which tests noticed."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("cutlayer", "tests", "docs", "examples", "benchmarks"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / file, tree / file)
        for mutation in MUTATIONS:
            names = failing(mutation, tree)
            rows.append((mutation.wrong, mutation.file, len(names), " ".join(names[:NAMED])))
            print(
                f"{mutation.wrong}: {len(names)} tests fail, such as {', '.join(names[:NAMED]) or 'none'}", flush=True
            )
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("mutation", "file", "tests that fail", "such as"))
        writer.writerows(rows)
    return 0 if all(count for _, _, count, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
