"""Scoring: the truth is read in one place, hints are exactly what was asked for, baselines are strong."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.secret import secret_of
from cutlayer.defence import Role
from cutlayer.judge import grant, judge
from cutlayer.metrics.baseline import best_classes, best_values
from cutlayer.rng import generator
from cutlayer.view import Known
from tests.helpers.small_task import bottom, make_task, top


@pytest.fixture(scope="module")
def run():
    return cl.train(make_task(3, "p0"), bottoms=bottom, top=top, recipe=cl.Recipe(epochs=1, batch_size=32))


class Constant(Attack):
    """Always says the same."""

    target, by = Target.LABELS, Role.FEATURE_PARTY

    def __init__(self, *, answer: int = 0, labels: int = 0) -> None:
        self.answer, self.labels = answer, labels

    @property
    def asks(self):
        return Asks(labels=self.labels)

    def run(self, view, rng):
        rows = view.manifest.train
        return Guess(rows, torch.full((len(rows),), self.answer), Form.CLASSES)


class Zeros(Attack):
    """Says that every column is zero."""

    target, by = Target.FEATURES, Role.LABEL_PARTY

    def run(self, view, rng):
        rows = view.manifest.test
        return Guess(rows, torch.zeros(len(rows), *view.hints.shapes[view.victim]), Form.VALUES)


def test_accuracy_is_scored_on_rows_that_were_not_told(run):
    finding = attack_run(run, [Constant(answer=1, labels=6)])[0]
    secret = secret_of(run)
    known_rows = grant(Asks(labels=6), run.view("p1"), secret, 0).labels.rows
    others = [row for row in run.task.train.tolist() if row not in set(known_rows.tolist())]
    assert finding.rows == 114
    assert finding.value == pytest.approx(float((run.task.labels[others] == 1).double().mean()))
    assert finding.low <= finding.value <= finding.high
    assert finding.granted == "6 labels" and finding.attacker == "p1" and finding.victim == "p0"


def test_every_victim_is_scored_and_the_mean_row_is_the_baseline(run):
    findings = attack_run(run, [Zeros()])
    assert [f.victim for f in findings] == ["p1", "p2"]
    for finding in findings:
        truth = run.task.features[finding.victim].values[run.task.test]
        assert finding.value == pytest.approx(float(truth.pow(2).mean()), rel=1e-5)
        assert finding.baseline == pytest.approx(float((truth - truth.mean(0)).pow(2).mean()), rel=1e-5)
        assert finding.baseline_name == "mean row"
        assert finding.detail == f"correlations of columns off by {finding.figures['off']:.3f} on average"


def test_hints_are_exactly_what_was_asked(run):
    secret, view = secret_of(run), run.view("p1")
    nothing = grant(Asks(), view, secret, 0)
    assert nothing.labels is None and not nothing.features and not nothing.bottoms
    hints = grant(Asks(labels=7, features=5, bottom=True), view, secret, 0)
    assert len(hints.labels.rows) == 7 and set(hints.features) == {"p0", "p2"} and set(hints.bottoms) == {"p0", "p2"}
    assert sorted(run.task.labels[hints.labels.rows].bincount().tolist()) == [2, 2, 3]
    assert set(hints.labels.rows.tolist()) <= set(run.task.train.tolist())
    assert torch.equal(hints.features["p2"].values, run.task.features["p2"].values[hints.features["p2"].rows])


def test_auc_is_averaged_per_batch_and_single_class_batches_are_skipped(run):
    class Scores(Constant):
        """Scores two batches perfectly, the third with one class."""

        def applies(self, manifest):
            return None

        def run(self, view, rng):
            rows = torch.arange(9)
            return Guess(rows, torch.tensor([0.9, 0.1, 0.2, 0.1, 0.9, 0.2, 5, 6, 7.0]), Form.SCORES, rows // 3)

    secret = secret_of(run)
    labels = torch.tensor([1, 0, 0, 1, 0, 0, 1, 1, 1, *[0] * 141])
    secret = cl.Secret(labels, secret.features, secret.bottoms)
    finding = judge([Scores()], lambda attack: run.view("p1"), secret)[0]
    assert finding.metric == "auc" and finding.value == pytest.approx(0.5)  # 1.0 and 0.0
    assert finding.baseline == 0.5


def test_what_does_not_apply_has_a_reason(run):
    class Picky(Constant):
        """Binary only."""

        def applies(self, manifest):
            return "binary-only"

    finding = attack_run(run, [Picky()])[0]
    assert (finding.status, finding.reason) == ("does not apply", "binary-only")


def test_an_attack_that_returns_nonsense_is_told(run):
    class Broken(Zeros):
        """Not a number."""

        def run(self, view, rng):
            guess = super().run(view, rng)
            return Guess(guess.rows, guess.values * float("nan"), Form.VALUES)

    with pytest.raises(cl.CutlayerError, match="one finite guess per row"):
        attack_run(run, [Broken()])


def test_the_label_baseline_uses_own_columns_and_the_same_hints():
    rng = generator(3)
    labels = torch.randint(0, 2, (400,), generator=rng)
    inputs = torch.randn(400, 3, generator=rng)
    inputs[:, 0] += 4 * labels
    known = Known(torch.arange(20), labels[:20])
    value, name = best_classes(inputs[20:], inputs[:20], known, labels[20:])
    assert value > 0.9 and "own columns" in name
    value, name = best_classes(None, None, None, torch.tensor([0, 0, 0, 1]))
    assert (value, name) == (0.75, "majority class")


def test_the_feature_baseline_uses_known_rows():
    rng = generator(4)
    own = torch.randn(300, 2, generator=rng)
    theirs = own @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]])
    known = Known(torch.arange(50), theirs[:50])
    value, name = best_values(own[50:], own[:50], known, theirs[50:])
    assert value < 1e-3 and name == "ridge regression on own columns"


def test_the_mean_of_few_rows_is_no_guess_at_them():
    """That of a single row is the row."""
    truth, mean = torch.tensor([[1.0, 3.0]]), torch.tensor([0.0, 1.0])
    assert best_values(None, None, None, truth) == (0, "mean row")
    assert best_values(None, None, None, truth, mean) == (2.5, "mean row")


def test_audit_reports_each_defence_attack_and_seed(tmp_path):
    task = make_task(2, "p0")
    report = cl.audit(
        task,
        defences={"none": [], "noise": [cl.defences.GaussianNoise(std=1.0)]},
        attacks=[Constant(), Zeros()],
        seeds=range(2),
        recipe=cl.Recipe(epochs=1, batch_size=32),
    )
    assert len(report.rows) == 8 and len(report.summary()) == 4
    assert all({"value", "baseline", "low", "high", "accuracy", "granted", "bytes"} <= set(row) for row in report.rows)
    assert [row["seeds"] for row in report.summary()] == [2] * 4
    report.save(tmp_path / "findings.csv")
    lines = (tmp_path / "findings.csv").read_text().splitlines()
    assert len(lines) == 9 and "figures" not in lines[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"defences": [cl.defences.MaxNorm()]}, r"as in \{'none': \[\], .*, got a list."),
        ({"defences": {"none": [], "noise": cl.defences.MaxNorm()}}, r"defences\['noise'\] to be a list of objects"),
        ({"defences": {}}, "Expected defences to hold at least one"),
        ({"attacks": ["model-completion"]}, r"such as cl.attacks.ModelCompletion\(\), got 'model-completion'."),
        ({"attacks": []}, "Expected attacks to hold at least one"),
        ({"seeds": 1}, r"such as range\(3\), got 1."),
        ({"seeds": ["0"]}, "Expected seed='0' to be a whole number."),
        ({"seeds": []}, "Expected seeds to hold at least one"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_any_training(changes, message):
    def trainer(*args, **options):
        raise AssertionError("trained")

    with pytest.raises(cl.ConfigError, match=message):
        cl.audit(
            make_task(2, "p0"), **{"defences": {"none": []}, "attacks": [Constant()], "trainer": trainer} | changes
        )


def test_seeds_may_be_given_one_by_one():
    options = {"defences": {"none": [], "again": []}, "attacks": [Constant()]}
    report = cl.audit(make_task(2, "p0"), seeds=iter([0]), recipe=cl.Recipe(epochs=1, batch_size=32), **options)
    assert [row["defence"] for row in report.rows] == ["none", "again"]


def test_a_report_is_csv_or_html(tmp_path):
    with pytest.raises(cl.ConfigError, match=r"ends in .csv or .html, got .*x.pdf"):
        cl.Report([]).save(tmp_path / "x.pdf")
    assert not list(tmp_path.iterdir())


class Knowing(Zeros):
    """Asks for more rows than there are."""

    @property
    def asks(self):
        return Asks(features=5000, labels=7, course=10_000)


def test_a_finding_says_what_was_granted_and_not_what_was_asked(run):
    findings = attack_run(run, [Knowing()])
    steps = "the victim's weights and their gradients in 4 training steps"
    assert {f.granted for f in findings} == {f"7 labels, 120 of the victim's rows, {steps}"}


def test_who_is_told_every_label_has_none_to_guess_and_the_others_go_on(run):
    all_told, done = attack_run(run, [Constant(labels=120), Constant(labels=119)])
    assert all_told.status == "does not apply" and "all 120 rows that it guesses were told" in all_told.reason
    assert (done.status, done.rows, done.granted) == ("done", 1, "119 labels")


@pytest.mark.parametrize(
    ("attack", "by", "message"),
    [
        (Constant(), "p0", "constant is by a feature party, and p0 holds the labels: use --by p1."),
        (Zeros(), "p1", "zeros is by the label party, and p1 holds no labels: use --by p0."),
        (Zeros(), "p9", "Unknown party 'p9'"),
    ],
)
def test_a_party_attacks_in_its_own_role_only(run, attack, by, message):
    with pytest.raises(cl.ConfigError, match=message):
        attack_run(run, [attack], by=by)


class Claims(Attack):
    """Claims given columns."""

    target, by = Target.FEATURES, Role.LABEL_PARTY

    def __init__(self, *, turned: bool = False) -> None:
        self.turned = turned

    def run(self, view, rng):
        rows = view.manifest.test
        column = (rows % 2 == 0) ^ self.turned
        return Guess(rows, column[:, None], Form.COLUMNS)


def test_columns_are_scored_up_to_complement_beside_the_commoner_value(run):
    values = {name: f.values.clone() for name, f in run.task.features.items()}
    values["p1"][:, 0] = torch.where(torch.arange(len(values["p1"])) % 2 == 0, 7.0, -1.0)  # what Claims says
    values["p1"][:, 1] = (torch.arange(len(values["p1"])) == int(run.task.test[0])).float()  # nobody claims it
    secret = replace(secret_of(run), features=values)
    for turned in (False, True):
        first, second = judge([Claims(turned=turned)], lambda attack: run.view("p0"), secret)
        count = len(run.task.test)
        assert first.metric == "column accuracy" and first.victim == "p1"
        assert first.value == pytest.approx(1 - 1 / count / 2)  # one exact, one at its commoner value
        even = float((run.task.test % 2 == 0).double().mean())
        assert first.baseline == pytest.approx((max(even, 1 - even) + 1 - 1 / count) / 2)
        assert first.detail == "1 of 2 two-valued columns exact, 1 claimed, the first right on 100.00% of rows"
        assert first.facts()["figures"] == {"exact": 1, "columns": 2, "claimed": 1, "first": 100.0}
        assert second.status == "does not apply" and second.reason.startswith("binary-only")
