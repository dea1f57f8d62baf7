"""What keeps two-valued columns from being read off the sums that secure-sum opens (attack-3), and what it costs.

    CUTLAYER_DATA=... python -m benchmarks.sfa_remedies [dataset ...]

writes results/sfa/remedies.csv: per dataset, remedy and attack the model's accuracy and AUC on the test rows (mean
over two seeds) and what the attack makes of the feature party's two-valued columns (first seed), beside always
saying the commoner value. At most 10,000 rows, four epochs; about 15 minutes on one core. Datasets that are named
replace their own rows only.

Attacks may name several columns, of which the best counts for each true one, so `silent` stands beside them: the
same attack on the sums of a feature party that sends nothing. What it scores is owed to the number of claims and
to what the label party's own columns say.
Deeper bottoms are the feature party's only; the label party's stays linear.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cutlayer as cl
from benchmarks.results import read_table, write_table
from cutlayer.attacks.tools.binary.visible import entered
from cutlayer.auditing.secret import secret_of
from cutlayer.blocks.sign import sign
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.data.task import Features, Task
from cutlayer.defence import Defence, Local, Place, Role, Setting, Subject
from cutlayer.finding import Finding
from cutlayer.judge import judge
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.models import named
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.settings import read_attacks, read_defences
from cutlayer.training import using_threads
from cutlayer.transcript import Transcript
from cutlayer.view import View

RESULTS = "sfa/remedies.csv"
SEEDS, EPOCHS, BATCH, LIMIT = range(2), 4, 128, 10_000
#: Width of the cut and hidden layers after it, as in the binary-reconstruction paper.
SHAPES = {"bank": (60, "30-10"), "credit": (100, "50-20"), "mushroom": (300, "200-100")}
ATTACKS = ("binary-equations", "binary-search:seconds=10", "binary-unmask:starts=100")
FIELDS = (
    "dataset", "remedy", "width", "accuracy", "auc", "attack", "exact", "columns", "claimed", "column_accuracy",
    "commoner_value", "silent", "seconds", "note",
)  # fmt: skip


class Signs(Defence):
    """Hashing that can be added up: the feature party's embeddings are normalised, and their signs enter the sum."""

    def __init__(self, *, bits: int) -> None:
        self.bits = bits

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """End the feature party's bottom in batch norm."""
        if setting.role is not Role.FEATURE_PARTY or setting.subject is not Subject.BOTTOM:
            return model
        return nn.Sequential(model, nn.BatchNorm1d(self.bits))

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Keep the signs."""
        return sign(payload) if local.place is Place.EMBEDDING else payload


@dataclass(frozen=True)
class Remedy:
    """What is changed: the width of the cut, the feature party's bottom, its defences."""

    width: int
    bottom: str = "linear"
    defences: tuple[Defence, ...] = ()


def remedies(columns: int, width: int) -> dict[str, Remedy]:
    """Every case by its name; `columns` are the feature party's."""
    cases = {"none": Remedy(width), "wider cut": Remedy(2 * width)}
    for narrow in (columns, columns - 1, columns // 2, 2):
        cases[f"cut of {narrow} for {columns} columns"] = Remedy(narrow)
    for curve in ("relu", "tanh"):
        cases[f"hidden layer, {curve}"] = Remedy(width, f"mlp:hidden={width},activation={curve}")
    cases["two hidden layers, relu"] = Remedy(width, f"mlp:hidden={width}-{width}")
    spelled = [f"gaussian-noise:std={std}" for std in (0.1, 0.3, 1.0, 3.0)]
    spelled += ["masquerade", *(f"column-noise:flip={flip}" for flip in (0.1, 0.25, 0.5))]
    for spelling in spelled:
        cases[spelling] = Remedy(width, "linear", read_defences([spelling]))
    for bits in (16, width):
        cases[f"signs, {bits} bits"] = Remedy(bits, "linear", (Signs(bits=bits),))
    return cases


def bottoms(task: Task, spelling: str) -> Callable[[Features, int], nn.Module]:
    """The remedy's bottom for the feature party, a linear one for the label party (told apart by their columns)."""
    own = task.features[task.label_party].values.shape[1]

    def make(features: Features, width: int) -> nn.Module:
        name = "linear" if features.values.shape[1] == own else spelling
        return named.bottom(name)(features, width)

    return make


def make_run(task: Task, remedy: Remedy, seed: int) -> Run:
    """Train under secure-sum."""
    recipe = cl.Recipe(epochs=EPOCHS, batch_size=BATCH, optimiser=cl.Optimiser.SGD, lr=0.1, weight_decay=1e-4)
    return cl.train(
        task,
        bottoms=bottoms(task, remedy.bottom),
        top=named.top(f"relu-mlp:hidden={SHAPES[task.name][1]}"),
        width=remedy.width,
        cut=SecureSum(),
        defences=remedy.defences,
        recipe=recipe,
        seed=seed,
        keep="none",
    )


def silent(view: View) -> View:
    """The sums as they would be if the feature party had sent nothing: the label party's own rows under a mask."""
    label, seen = view.manifest.label_party, Transcript()
    rows, sums, _ = view.channel(Kind.SUM, Phase.PREDICT).read()
    own = entered(view, rows)
    assert own is not None
    mask = torch.randn(own.shape[1], sums.shape[1], generator=generator(0, "silent"))
    seen.write(Message(Batch(0, Phase.PREDICT, rows), label, label, Kind.SUM, own.float() @ mask))
    return replace(view, channels=tuple(seen.channels.values()))


def findings(run: Run) -> list[dict[str, Any]]:
    """What the attacks make of a run, and of sums to which the feature party adds nothing."""
    task, secret, attacks = run.task, secret_of(run), read_attacks(ATTACKS)
    view = run.view(task.label_party, predict=torch.cat([task.train, task.test]))

    def judged(seen: View) -> list[Finding]:
        return judge(attacks, lambda attack: seen, secret)

    with using_threads(1):
        right, control = judged(view), judged(silent(view))
    return [_row(finding, without) for finding, without in zip(right, control, strict=True)]


def _row(finding: Finding, control: Finding) -> dict[str, Any]:
    counts = {name: finding.figures[name] for name in ("exact", "columns", "claimed") if name in finding.figures}
    scores = {"column_accuracy": finding.value, "commoner_value": finding.baseline, "silent": control.value}
    return {"attack": finding.attack, **counts, **scores, "seconds": finding.seconds, "note": finding.reason}


def measure(name: str) -> None:
    """All remedies on one dataset; what is known is written after each."""
    task = getattr(cl.data, name)(limit=LIMIT)
    columns = task.features[task.feature_parties[0]].values.shape[1]
    others = [row for row in read_table(RESULTS) if row["dataset"] != name]
    rows: list[dict[str, Any]] = []
    for case, remedy in remedies(columns, SHAPES[name][0]).items():
        runs = [make_run(task, remedy, seed) for seed in SEEDS]
        model = {score: float(np.mean([run.metrics[score] for run in runs])) for score in ("accuracy", "auc")}
        setup = {"dataset": name, "remedy": case, "width": remedy.width, **model}
        rows += [setup | row for row in findings(runs[0])]
        write_table(RESULTS, "sfa_remedies", [*others, *rows], FIELDS)
        for row in rows[-len(ATTACKS) :]:
            exact = f"{row.get('exact', '-')} of {row.get('columns', '-')} exact, {row.get('claimed', '-')} claimed"
            score = f"{row['column_accuracy']:.4f} ({row['silent']:.4f} silent)"
            print(f"{name}, {case}: AUC {row['auc']:.4f}; {row['attack']}: {exact}, {score}", file=sys.stderr)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or list(SHAPES):
        measure(chosen)
