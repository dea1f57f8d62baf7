"""A mechanism that draws half its noise states an epsilon that it does not keep; canaries refute it."""

import pytest

from cutlayer.auditing.canaries import privacy_of
from cutlayer.blocks.accountant import gaussian_epsilon
from cutlayer.defences import DpSgd, LabelDP
from cutlayer.plan import Plan
from cutlayer.recipe import Recipe
from tests.helpers.small_task import make_task

SETTINGS = {"noise": 1.4, "clip": 1.5, "where": "logits", "delta": 1e-7}


class HalfNoise(DpSgd):
    """The weak variant: the account is right, and the draw is not."""

    def protect(self, payload, local):
        weak = DpSgd(**SETTINGS | {"noise": self.noise / 2})
        return weak.protect(payload, local)


class HalfAnswers(LabelDP):
    """The weak variant: labels are answered at twice the epsilon that is stated."""

    def labels(self, labels, setting):
        return LabelDP(epsilon=2 * self.epsilon).labels(labels, setting)


def told(defence, canaries):
    plan = Plan(defences=(defence,), recipe=Recipe(epochs=1, batch_size=16))
    (one,) = privacy_of(make_task(2, "p0"), plan, canaries)
    return one


def test_half_the_gaussian_noise_is_caught_and_the_whole_is_not():
    sound, broken = (told(cls(**SETTINGS), 20_000) for cls in (DpSgd, HalfNoise))
    assert sound.epsilon == broken.epsilon
    assert broken.at_least > broken.epsilon and 0 < sound.at_least < sound.epsilon


def test_answers_at_twice_the_epsilon_are_caught_by_the_canaries_of_every_run():
    sound, broken = (told(cls(epsilon=1.0), 2_000) for cls in (LabelDP, HalfAnswers))
    assert broken.at_least > 1.0 and 0.5 < sound.at_least <= 1.0


@pytest.mark.parametrize("parties", [1, 3])
def test_what_was_asked_for_is_what_a_run_spends(parties):
    """The former calibration knew epochs and no parties: 30 epochs to three of them spent twice what was asked."""
    former = gaussian_epsilon(2 * (30 * 3) ** 0.5 / 5.476, 1e-5)
    assert former == pytest.approx(20.1, abs=0.1)
    task = make_task(parties + 1, "p0")
    plan = Plan(defences=(DpSgd(epsilon=10.0, where="logits"),), recipe=Recipe(epochs=30, batch_size=64))
    (one,) = privacy_of(task, plan, 200)
    assert one.epsilon == pytest.approx(10.0, rel=1e-6)
