"""docs/explanation-secure-cuts.md, line by line: what a party sees is made up from what it is meant to get.

Real and made-up views go to distinguishers (tests/helpers/distinguish.py), which must find nothing; on a weak variant
beside each they must find something, or they would be blind.
"""

import numpy as np
import pytest
import torch

import cutlayer as cl
from cutlayer.crypto import Bfv, Ring
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts import layer_ends
from cutlayer.cuts.parts.layer_ends import NoiseEnd, WeightsEnd
from cutlayer.cuts.parts.masking import Blind, Holder, places_of
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.message import Kind, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.distinguish import found
from tests.helpers.layer_steps import LAYER, PLACES, TERMS, Unmasked, layer_steps
from tests.helpers.random_task import random_task
from tests.helpers.toy import rng

BITS, ROWS, COLUMNS, WIDTH, EPOCHS = 40, 256, 4, 6, 2
RING = Ring(BITS, 24)


def uniform(*shape):
    return RING.uniform(shape)


# secure-sum


def trained(cut, parties, epochs=EPOCHS):
    """A short training: the session, all that crossed, and the embeddings of every row by epoch and party."""
    task, seen, embeddings = (
        random_task("views", ROWS, parties, COLUMNS, 1.0, own=True),
        Transcript(Keep(Policy.ALL)),
        {},
    )
    plan = Plan(
        bottoms=lambda features, width: MLP(COLUMNS, [width], bias=False),
        top=lambda inputs, outputs: MLP(inputs, [8, outputs], first_activation=True),
        width=WIDTH,
        cut=cut,
        recipe=cl.Recipe(epochs=epochs, batch_size=64, lr=0.05, optimiser=cl.Optimiser.SGD),
    )
    session = assemble(task, plan, seen.record)
    for name in task.feature_parties:
        calls = embeddings[name] = []
        session.parties[name].bottom.register_forward_hook(lambda *call, calls=calls: calls.append(call[2].detach()))
    for epoch in range(epochs):
        seen.begin_epoch(epoch, epoch == epochs - 1)
        session.train_epoch(epoch, task.train)
    return task, session, seen, {name: torch.cat(calls) for name, calls in embeddings.items()}


def by_row(rows, values):
    """Rows of each epoch in order: one matrix per epoch."""
    order = rows.view(EPOCHS, -1).argsort(dim=1)
    return [part.numpy()[places.numpy()] for part, places in zip(values.chunk(EPOCHS), order, strict=True)]


@pytest.fixture(scope="module")
def three():
    """Label party p0 with two feature parties: messages, embeddings and M_A by row."""
    task, session, seen, embeddings = trained(SecureSum(), 3)
    messages, plain = {}, {}
    for name in task.feature_parties:
        rows, values, _ = seen.channels[name, "p0", Kind.EMBEDDING, Phase.TRAIN].read()
        messages[name], plain[name] = by_row(rows, values), by_row(rows, embeddings[name])
    own = session.label_party.cut._shares.of(task.train.sort().values.numpy())
    return messages, plain, own


def label_view(messages, own):
    """All that the label party has of a row: both parties' messages and the sums, of two epochs, and its mask."""
    sums = [RING.sum([messages["p1"][epoch], messages["p2"][epoch], own]) for epoch in range(EPOCHS)]
    return [*messages["p1"], *messages["p2"], *sums, own]


def made_up_for_label(messages, own):
    """From the sums alone: p2's messages are uniform, p1's what is left."""
    sums = [RING.sum([messages["p1"][epoch], messages["p2"][epoch], own]) for epoch in range(EPOCHS)]
    second = [uniform(*own.shape) for _ in range(EPOCHS)]
    first = [RING.subtract(RING.subtract(total, part), own) for total, part in zip(sums, second, strict=True)]
    return label_view({"p1": first, "p2": second}, own)


def test_the_label_partys_messages_of_two_partners_follow_from_the_sums(three):
    messages, plain, own = three
    secrets = [matrix for name in ("p1", "p2") for matrix in plain[name]]
    made_up = made_up_for_label(messages, own)
    assert found(BITS, label_view(messages, own), made_up) == set()
    assert found(BITS, [*messages["p1"], *messages["p2"]], made_up[: 2 * EPOCHS], secrets) == set()


def test_masks_that_come_again_in_the_next_epoch_are_found(three):
    messages, plain, own = three
    weak = {
        name: [sent[0], RING.add(sent[0], RING.subtract(*(RING.encode(plain[name][e]) for e in (1, 0))))]
        for name, sent in messages.items()
    }
    assert "told apart" in found(BITS, label_view(weak, own), made_up_for_label(weak, own))


def test_the_label_partys_message_of_one_partner_is_the_sum_less_its_own_mask():
    """It is the same number: the partner adds to its embedding nothing but the dither and the label party's share."""
    task, session, seen, embeddings = trained(SecureSum(), 2)
    rows, messages, _ = seen.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
    holder, label = session.parties["p1"].cut._holder, session.label_party.cut
    own = session.label_party.cut._ring.encode_rows(task.features["p0"].values[rows], 24 - places_of(COLUMNS))
    z = embeddings["p1"]
    ideal = RING.sum([RING.encode(z), holder.dither.of(z), RING.matmul(own, RING.wrap(holder.weights))])
    assert np.array_equal(messages.numpy(), RING.subtract(ideal, label._shares.of(rows.numpy())))


def test_the_encrypted_mask_is_told_from_zeros_only_in_the_clear():
    scheme = Bfv(RING)
    holder, zeros = Holder(scheme, COLUMNS, WIDTH, 3), np.zeros((COLUMNS, WIDTH), np.int64)

    def pieces(data):
        """Bytes of a ciphertext in fours, as residues."""
        count = len(data) // 8 * 8
        return [np.frombuffer(data[:count], "<u4").reshape(-1, 2)[:20_000].astype(np.int64)]

    encrypted = pieces(holder.operand()[-160_000:])
    assert found(32, encrypted, pieces(holder.secret.encrypt(zeros).to_bytes()[-160_000:])) == set()
    plain = np.tile(RING.wrap(holder.weights), (100, 1))
    assert found(BITS, [plain], [0 * plain])


def opened_by_holder(monkeypatch=None):
    """The holder's shares of many rows, and what the label party hides in them."""
    scheme = Bfv(RING)
    holder = Holder(scheme, COLUMNS, WIDTH, 3)
    blind = Blind(scheme, COLUMNS, WIDTH, holder.public(), holder.operand())
    rows = torch.randn(ROWS, COLUMNS, generator=rng(5))
    if monkeypatch is not None:
        small = Ring(24, 0)  # as large as a product, and no larger: as masks of floats are
        monkeypatch.setattr(Ring, "uniform", lambda ring, shape: ring.wrap(small.centred(_drawn(small, shape))))
    return [holder.open(blind.forward(rows, 100.0)[0], ROWS)], rows.double().numpy()


def _drawn(ring, shape):
    return ring.wrap(stretch(11, "test", 0, shape, ring.bits))


def test_the_holders_share_is_uniform_and_says_nothing_of_the_rows():
    share, rows = opened_by_holder()
    assert found(BITS, share, [uniform(ROWS, WIDTH)], [rows]) == set()


def test_a_mask_as_small_as_the_product_is_found(monkeypatch):
    made_up = [uniform(ROWS, WIDTH)]
    share, rows = opened_by_holder(monkeypatch)
    assert found(BITS, share, made_up, [rows]) == {"bytes", "told apart", "linear"}


RECEIVED = {  # by the simulators of the page
    "p0": {("p1", Kind.SETUP), ("p1", Kind.CIPHER), ("p1", Kind.EMBEDDING), ("p2", Kind.EMBEDDING), ("p0", Kind.SUM)},
    "p1": {("p0", Kind.SETUP), ("p0", Kind.CIPHER), ("p0", Kind.GRADIENT), ("p2", Kind.SETUP)},
    "p2": {("p1", Kind.SETUP), ("p0", Kind.GRADIENT)},
}
RECEIVED_BY_LAYER = {
    "p0": {("p1", Kind.SETUP), ("p1", Kind.CIPHER), ("p1", Kind.SHARE), ("p0", Kind.SUM)},
    "p1": {("p0", Kind.CIPHER), ("p1", Kind.GRADIENT)},
}


@pytest.mark.parametrize(
    ("cut", "parties", "expected"),
    [(SecureSum(), 3, RECEIVED), (EncryptedLayer(width=WIDTH), 2, RECEIVED_BY_LAYER)],
    ids=["secure-sum", "encrypted-layer"],
)
def test_nothing_arrives_that_no_simulator_makes(cut, parties, expected):
    _, _, seen, _ = trained(cut, parties, epochs=1)
    received = {}
    for sender, receiver, kind, _ in seen.channels:
        received.setdefault(receiver, set()).add((sender, kind))
    assert received == expected


# encrypted-layer


@pytest.fixture(scope="module")
def steps():
    return layer_steps()


def below_rounding(shape):
    """A blur: signed, of as many bits as W has behind the point."""
    return LAYER.wrap(Ring(PLACES.weights, 0).centred(Ring(PLACES.weights, 0).uniform(shape)))


@pytest.mark.parametrize("name", ["product", "gradient"])
def test_what_is_opened_is_the_ideal_output_and_a_blur(name, steps):
    """alpha W at the label party, delta W^T at the feature party: beyond them, uniform numbers below rounding."""
    rest = steps[name]
    secrets = [steps["alpha"], steps["delta"]]
    assert found(BITS, [rest], [below_rounding(rest.shape)], secrets) == set()


def test_an_exact_product_is_found(monkeypatch):
    real = layer_ends.stretch
    monkeypatch.setattr(
        layer_ends, "stretch", lambda seed, purpose, *more: real(seed, purpose, *more) * (purpose != "blur")
    )
    weak = layer_steps()
    for name in ("product", "gradient"):
        assert "bytes" in found(BITS, [weak[name]], [below_rounding(weak[name].shape)])


def test_the_label_partys_step_is_noise_over_half_the_ring(steps):
    """alpha^T delta is in it, at 2^-13 of the noise; that is the leak that the page states."""
    half = Ring(BITS - 1, 0)
    shape = steps["step"].shape
    assert found(BITS, [steps["step"]], [LAYER.wrap(half.centred(half.uniform(shape)))], [steps["true step"]]) == set()


def test_noise_of_the_gradients_own_size_is_found(monkeypatch, steps):
    real = layer_ends.stretch

    def small(seed, purpose, step, shape, bits):
        return real(seed, purpose, step, shape, 25 if purpose == "noise" else bits)

    monkeypatch.setattr(layer_ends, "stretch", small)
    weak, half = layer_steps()["step"], Ring(BITS - 1, 0)
    made_up = LAYER.wrap(half.centred(half.uniform(weak.shape)))
    assert found(BITS, [weak], [made_up], [steps["true step"]]) == {"bytes", "told apart", "linear"}


@pytest.mark.parametrize("name", ["half", "half step"])
def test_what_the_feature_party_decrypts_is_uniform(name, steps):
    secrets = [steps["alpha"]] if name == "half" else [steps["true step"]]
    assert found(BITS, [steps[name]], [LAYER.uniform(steps[name].shape)], secrets) == set()


def test_products_without_masks_are_found():
    weak = layer_steps(Unmasked)
    assert "linear" in found(BITS, [weak["half step"]], [LAYER.uniform(weak["half step"].shape)], [weak["true step"]])


def test_both_shares_of_the_start_are_uniform_and_neither_says_w():
    """Over many starts; the weak variant is W itself at one side, as it was when N began at zero."""
    scheme, sides, whole = Bfv(LAYER), ([], []), []
    for seed in range(40):
        feature = NoiseEnd(scheme, TERMS, 50 + seed)
        label = WeightsEnd(scheme.read_key(feature.secret.public.to_bytes()), TERMS, 500 + seed)
        sides[0].append(feature.begin(label.begin(feature.factor())).ravel())
        sides[1].append(label.weights.ravel())
        whole.append(LAYER.add(feature.noise, label.weights).ravel())
    starts = np.array(whole)
    secret = LAYER.centred(starts) / 2.0**PLACES.weights
    for side in sides:
        assert found(BITS, [np.array(side)], [LAYER.uniform(starts.shape)], [secret[:, :3]]) == set()
    assert "told apart" in found(BITS, [starts], [LAYER.uniform(starts.shape)])
