"""A unit of work gives an outcome for every part, whatever goes wrong, and parts do not depend on each other."""

from cutlayer.experiment import work as module
from cutlayer.experiment.unit import Part, Unit
from cutlayer.experiment.work import work
from cutlayer.settings import Settings

NOISY = Settings(epochs=1, batch_size=32, defences=("gaussian-noise:std=0.5",))
ATTACKS = ("pgd:rows=20,iterations=2", "model-inversion:images=6,steps=3")  # the first draws noise when it is scored


def unit(*parts, **words):
    return Unit(**{"data": "wine:label_party=server", "training": NOISY, "parts": parts, **words})


def values(outcome):
    return {name: [row["value"] for row in rows] for name, rows in outcome["attacks"].items()}


def test_an_attack_finds_the_same_alone_and_after_others():
    (both,) = work(unit(Part(key="both", attacks=ATTACKS)))
    first, second = work(unit(*(Part(key=attack, attacks=(attack,)) for attack in reversed(ATTACKS))))
    assert values(both) == {**values(first), **values(second)} and both["status"] == "done"


def test_an_outcome_has_its_key_its_words_and_what_the_training_says():
    (outcome,) = work(unit(Part(key="a", words={"setup": "noise"})))
    assert (outcome["key"], outcome["setup"], outcome["device"]) == ("a", "noise", "cpu")
    assert 0 < outcome["metrics"]["accuracy"] <= 1 and len(outcome["losses"]) == 1 and outcome["seconds"] >= 0
    assert outcome["attacks"] == {} and outcome["checks"] == {}


def test_data_that_cannot_be_loaded_may_be_there_next_time():
    outcomes = list(work(unit(Part(key="a"), Part(key="b"), data="no-such-data")))
    assert [outcome["key"] for outcome in outcomes] == ["a", "b"]
    for outcome in outcomes:
        assert outcome["status"] == "failed" and "Unknown dataset 'no-such-data'" in outcome["reason"]


def test_a_training_that_is_refused_is_settled_and_one_that_breaks_is_not(monkeypatch):
    (outcome,) = work(unit(Part(key="a"), training=Settings(epochs=1, patience=2)))
    assert outcome["status"] == "does not apply" and "validation" in outcome["reason"]
    monkeypatch.setattr(module.Unit, "train", lambda self, task: 1 / 0)
    (outcome,) = work(unit(Part(key="a")))
    assert (outcome["status"], outcome["reason"]) == ("failed", "ZeroDivisionError: division by zero")


def test_an_attack_or_a_check_that_breaks_leaves_the_others_alone(monkeypatch):
    original = module.attack_run

    def failing(run, attacks, **options):
        if attacks[0].name == "model-inversion":
            raise ZeroDivisionError("on purpose")
        return original(run, attacks, **options)

    monkeypatch.setattr(module, "attack_run", failing)
    (outcome,) = work(unit(Part(key="a", attacks=ATTACKS, checks=("builtins.len",))))
    statuses = {name: rows[0]["status"] for name, rows in outcome["attacks"].items()}
    assert statuses == {ATTACKS[0]: "done", ATTACKS[1]: "failed"} and outcome["status"] == "failed"
    assert outcome["reason"] == "ZeroDivisionError: on purpose; TypeError: object of type 'Run' has no len()"
