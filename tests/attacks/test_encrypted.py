"""Encrypting the layer behind a bottom hides nothing from the bottom's owner: attacks read what they do in the open."""

import pytest
import torch

from cutlayer.attacks import GradientClusters
from cutlayer.attacks.tools.practice import Reader
from cutlayer.attacks.tools.records import write_records
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.message import Kind, Phase
from cutlayer.plan import assemble, roster_of
from cutlayer.rng import Stream
from cutlayer.transcript import Keep, Policy, Transcript
from cutlayer.view import Hints, Known, Manifest, Own, Start, view_of
from tests.helpers.layered import WIDTH, make_task, plan_of, reference, weights_of
from tests.helpers.layered import small_keys as small_keys
from tests.helpers.toy import record, rng

EPOCHS, ME = 3, "p1"


@pytest.fixture(scope="module")
def views():
    """What p1 saw in an encrypted run, and in the same run in the open."""
    task, plan = make_task(), plan_of(EncryptedLayer(width=WIDTH, lr=0.2, scheme="bfv", bits=48))
    kept, opened = Transcript(Keep(Policy.ALL)), Transcript(Keep(Policy.ALL))
    session = assemble(task, plan, kept.record)
    session.predict(task.test)
    other = reference(task, plan, {name: weights_of(session, name) for name in task.feature_parties})
    gradients = []
    inner = other.parties[ME].bottom.inner
    inner.register_forward_hook(
        lambda *call: call[2].requires_grad and call[2].register_hook(gradients.append) and None
    )
    for epoch in range(EPOCHS):
        kept.begin_epoch(epoch, epoch == EPOCHS - 1)
        opened.begin_epoch(epoch, epoch == EPOCHS - 1)
        session.train_epoch(epoch, task.train)
        other.train_epoch(epoch, task.train)
        rows = [m.batch.rows for m in kept.channels[ME, ME, Kind.GRADIENT, Phase.TRAIN].messages()][-len(gradients) :]
        for step, (batch, gradient) in enumerate(zip(rows, gradients, strict=True)):
            record(opened, Kind.GRADIENT, ME, batch, gradient, step)
        gradients.clear()
    manifest = Manifest("toy", roster_of(task), len(task.classes), task.train, task.test, plan.recipe, plan.cut)

    def start():
        party = assemble(task, plan, lambda message: None).parties[ME]
        return Start(party.bottom, party.features, Stream(0, "own"))

    own = Own(task.features[ME].values, None, start=start)
    known = task.train[:8]
    hints = Hints(labels=Known(known, task.labels[known]))
    seen = [view_of(transcript, frozenset({ME}), manifest, {ME: own}) for transcript in (kept, opened)]
    return task, [type(view)(view.parties, view.manifest, view.channels, view.own, hints) for view in seen]


def test_records_agree_up_to_fixed_point(views):
    _, encrypted_and_open = views
    through, plain = (write_records([view], "all") for view in encrypted_and_open)
    assert torch.equal(through.rows, plain.rows) and len(plain.rows) == EPOCHS * 32
    torch.testing.assert_close(through.take(torch.arange(96)), plain.take(torch.arange(96)), atol=2e-3, rtol=0)
    assert plain.take(torch.arange(96)).abs().max() > 0.1


def test_a_network_taught_in_the_open_reads_the_encrypted_run_alike(views):
    task, encrypted_and_open = views
    through, plain = (write_records([view], "none") for view in encrypted_and_open)
    with Stream(0, "reader").scope():
        reader = Reader((32,), plain, len(task.classes)).learn(task.labels, rounds=10, rate=1e-3)
    assert torch.equal(reader.read(through), reader.read(plain))


def test_clusters_are_the_same(views):
    _, encrypted_and_open = views
    through, plain = (GradientClusters().run(view, rng()) for view in encrypted_and_open)
    assert torch.equal(through.rows, plain.rows) and torch.equal(through.values, plain.values)
