import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import NormScore
from cutlayer.attacks.norm_score import best_split
from cutlayer.errors import RunError
from cutlayer.message import Kind
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.toy import BATCH, FEATURE, LABEL, auc, gradient_view, record, rng, world


def test_scores_are_norms_and_groups_are_steps():
    first = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    second = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    view = gradient_view([(torch.tensor([7, 2]), first), (torch.tensor([4, 9]), second)])
    guess = NormScore().run(view, rng())
    assert guess.form is Form.SCORES
    assert guess.rows.tolist() == [7, 2, 4, 9]
    assert guess.values.tolist() == pytest.approx([5, 0, 2, 1])
    assert guess.groups.tolist() == [0, 0, 1, 1]


def test_tiny_gradients_do_not_tie_and_maps_are_rows():
    payload = torch.full((2, 3, 2, 2), 1e-30) * torch.tensor([1.0, 2.0]).view(2, 1, 1, 1)
    values = NormScore().run(gradient_view([(torch.arange(2), payload)]), rng()).values
    assert (values[1] / values[0]).item() == pytest.approx(2)


def test_only_the_last_epoch_counts():
    toy = world()
    guess = NormScore().run(toy.view_for(NormScore()), rng())
    assert sorted(guess.rows.tolist()) == toy.manifest.train.tolist()
    assert guess.groups.unique().numel() == len(toy.manifest.train) // BATCH


def test_rare_positives_stand_out_and_shuffled_labels_do_not():
    scores = {}
    for sealed in (False, True):
        toy = world(sealed=sealed)
        guess = NormScore().run(toy.view_for(NormScore()), rng())
        batches = [guess.groups == g for g in guess.groups.unique()]
        scores[sealed] = sum(auc(toy.labels[guess.rows[b]], guess.values[b]) for b in batches) / len(batches)
    assert scores[False] > 0.8
    assert scores[True] == pytest.approx(0.5, abs=0.12)


def test_an_empty_transcript_is_refused_in_one_sentence():
    view = gradient_view([(torch.arange(2), torch.zeros(2, 3))])
    with pytest.raises(RunError, match="--keep"):
        NormScore().run(type(view)(view.parties, view.manifest, (), view.own), rng())


def test_binary_only():
    assert NormScore().applies(world().manifest) is None
    assert NormScore().applies(world(3).manifest) == "binary-only"
    assert NormScore().applies(world(0).manifest) == "classes-only"


def test_the_attackers_own_channel_is_read():
    transcript = Transcript(Keep(Policy.ALL))
    record(transcript, Kind.GRADIENT, "another", torch.arange(2), torch.ones(2, 3))
    record(transcript, Kind.GRADIENT, FEATURE, torch.arange(2), torch.zeros(2, 3))
    view = gradient_view([(torch.arange(2), torch.zeros(2, 3))])
    both = type(view)(frozenset({FEATURE}), view.manifest, tuple(transcript.channels.values()), view.own, victim=LABEL)
    assert NormScore().run(both, rng()).values.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("scores", "labels", "threshold"),
    [
        ([1.0, 4.0, 2.0, 3.0], [0, 1, 0, 1], 3.0),
        ([1.0, 2.0, 2.0], [0, 0, 1], 2.0),  # the two at 2 cannot be separated: all from 2 on is right twice
        ([1.0, 2.0], [1, 0], 1.0),  # turned round: calling all positive, or none, is as good as it gets
        ([1.0, 2.0], [0, 0], float("inf")),
    ],
)
def test_the_best_threshold(scores, labels, threshold):
    assert best_split(torch.tensor(scores), torch.tensor(labels)) == threshold


def test_with_shadow_data_it_says_who_is_positive():
    toy, attack = world(), NormScore(shadow=80)
    guess = attack.run(toy.view_for(attack), rng())
    right = (toy.labels[guess.rows] == guess.values).double().mean().item()
    often = max(toy.labels[guess.rows].double().mean().item(), 1 - toy.labels[guess.rows].double().mean().item())
    assert guess.form is Form.CLASSES and right > often
