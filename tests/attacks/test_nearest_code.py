from dataclasses import replace

import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import NearestCode
from cutlayer.attacks.tools.shared_codes import nearest_code, shared_codes
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.codebook import hamming
from cutlayer.defences import Hash
from cutlayer.errors import ConfigError, RunError
from cutlayer.message import Kind, Phase
from cutlayer.recipe import Recipe
from cutlayer.transcript import Transcript
from cutlayer.view import Manifest, Own, view_of
from tests.helpers.toy import FEATURE, LABEL, NEUTRAL, digits_run, record, rng, world

CODES = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, 1]])


def sent_view(sent, train, defence):
    """A feature party's view of what it sent for rows 0, 1, 2, ... in two passes; the last one counts."""
    rows, transcript = torch.arange(len(sent)), Transcript()
    record(transcript, Kind.EMBEDDING, FEATURE, rows, -sent, 0, Phase.PREDICT)
    record(transcript, Kind.EMBEDDING, FEATURE, rows.flip(0), sent.flip(0), 1, Phase.PREDICT)
    cut = world().manifest.cut
    manifest = Manifest("toy", NEUTRAL, 3, train, rows[:0], Recipe(batch_size=4), cut, seed=5, defences=(defence,))
    view = view_of(transcript, frozenset({FEATURE}), manifest, {FEATURE: Own(None, None)})
    return replace(view, victim=LABEL)


def test_distances_by_hand():
    """To the codes: 1, 1, 4 bits (a tie: the first); 4, 2, 1; 2, 0, 3."""
    sent = torch.tensor([[1.0, 1, 1, -1], [-1, -1, -1, -1], [1, 1, -1, -1]])
    assert hamming(sent[:, None], CODES).tolist() == [[1, 1, 4], [4, 2, 1], [2, 0, 3]]
    assert nearest_code(sent, CODES).tolist() == [0, 2, 1]


def test_training_rows_are_named_after_the_shared_codes_and_the_last_message_counts():
    codes = Hash(bits=6).shared_codes(3, 5)
    order = torch.tensor([2, 0, 1, 1, 2, 0])
    view = sent_view(codes[order], torch.tensor([4, 1, 2]), Hash(bits=6))
    guess = NearestCode().run(view, rng())
    assert guess.form is Form.CLASSES and guess.rows.tolist() == [4, 1, 2] and guess.values.tolist() == [2, 0, 1]


def test_a_hashed_toy_gives_labels_away_and_shuffled_labels_do_not():
    scores = {}
    for sealed in (False, True):
        toy = world(3, sealed=sealed, hashed=True)
        guess = NearestCode().run(toy.view_for(NearestCode()), rng())
        scores[sealed] = float((toy.labels[guess.rows] == guess.values).double().mean())
    assert scores[False] > 0.5
    assert scores[True] == pytest.approx(1 / 3, abs=0.08)


def test_digits_lose_their_labels_without_a_single_known_one():
    run = digits_run(True)
    finding = attack_run(run, [NearestCode()], by="party2")[0]
    assert finding.value > 0.8 and finding.baseline < 0.2 and finding.granted.startswith("a prediction pass")
    rows, sent, _ = run.view("party2", predict=run.task.train).channel(Kind.EMBEDDING, Phase.PREDICT).read()
    codes = shared_codes(run.manifest())
    named = hamming(sent[:, None], codes).argmin(dim=1)
    assert finding.value == pytest.approx(float((run.task.labels[rows] == named).double().mean()))


def test_what_it_refuses():
    assert NearestCode().applies(world(0).manifest) == "classes-only"
    for manifest in (
        world(3).manifest,
        sent_view(CODES, torch.arange(3), Hash(bits=4, targets="private")).manifest,
        sent_view(CODES, torch.arange(3), Hash(bits=4, consistency=False)).manifest,
    ):
        assert NearestCode().applies(manifest) == "needs shared target codes"
    with pytest.raises(ConfigError, match="target codes"):
        NearestCode().run(world(3).view_for(NearestCode()), rng())
    with pytest.raises(RunError, match="training or test rows"):
        NearestCode().run(sent_view(CODES, torch.tensor([9]), Hash(bits=4)), rng())
