"""A peer that makes the others go back to a checkpoint, and then sends something else, must meet fresh noise.

Encrypted layer: the feature party adds n / lr to alpha^T delta. If n of a step is always the same, a label party that
has the step trained again under another delta subtracts the two and reads alpha^T (delta' - delta), hence alpha.
"""

import numpy as np
import pytest
import torch

from cutlayer.crypto import Agreement, Paillier, Ring
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts import masking
from cutlayer.cuts.parts.layer_ends import NoiseEnd, Terms, WeightsEnd
from cutlayer.cuts.parts.stretch import once_only
from cutlayer.defence import Role, Setting, Subject
from cutlayer.plan import assemble
from cutlayer.rng import SECRET, secret_seed
from tests.helpers.layered import make_task, plan_of
from tests.helpers.toy import rng

ROWS, INPUTS, WIDTH, STEP = 8, 4, 3, 17
RING = Ring(40, 0)
KEPT = secret_seed()  # a party's private seed, which outlives its processes


@pytest.fixture(autouse=True)
def small_keys(monkeypatch):
    monkeypatch.setattr(masking, "Paillier", lambda ring: Paillier(ring, 512, for_tests=True))


def numbers(*shape, seed):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def shown(delta, seed, noise):
    """What the label party reads in a step, its own mask taken off: alpha^T delta + n / lr, and alpha W blurred."""
    scheme, terms = Paillier(RING, 512, for_tests=True), Terms(RING, INPUTS, WIDTH, 0.1)
    alpha = numbers(ROWS, INPUTS, seed=1)
    feature = NoiseEnd(scheme, terms, seed)  # as it is built anew, from saved memory
    label = WeightsEnd(scheme.read_key(feature.secret.public.to_bytes()), terms, 5)
    feature.noise, label.weights = noise, RING.subtract(RING.encode(torch.ones(INPUTS, WIDTH), 18), noise)
    product = feature.complete(label.forward(feature.forward(alpha), ROWS), alpha, STEP)
    opened = RING.centred(RING.subtract(product, label._mask.T))
    share, _ = feature.disturb(label.weights_gradient(feature.operand(alpha), delta), ROWS, STEP)
    return RING.centred(RING.subtract(share, label._mask.T)), opened, alpha


def difference(seed):
    """How far the difference of two trainings of one step is from alpha^T (delta' - delta), relative to it."""
    noise = RING.uniform((INPUTS, WIDTH))
    one, two = (numbers(ROWS, WIDTH, seed=s) for s in (2, 3))
    (first, blurred, alpha), (second, again, _) = shown(one, seed(), noise), shown(two, seed(), noise)
    read = torch.from_numpy(RING.centred(RING.wrap(second - first)).astype(np.float64)) * 2.0**-26
    truth = alpha.T @ (two - one)
    return float((read - truth).norm() / truth.norm()), np.array_equal(blurred, again)


def test_noise_of_a_kept_seed_is_a_pad_used_twice():
    error, same_blur = difference(lambda: KEPT)
    assert error < 0.01 and same_blur


def test_noise_is_drawn_anew_whenever_a_party_is_built():
    error, same_blur = difference(lambda: once_only(KEPT))
    assert error > 100 and not same_blur


def test_the_cut_draws_anew_in_a_deployment_and_repeats_in_a_simulation():
    def seed_of(private):
        cut = EncryptedLayer()
        cut.begin(Setting("p1", Role.FEATURE_PARTY, Subject.PARTY, 2, rng(), 0, private_seed=private), None)
        return cut._seed

    assert len({seed_of(KEPT), seed_of(KEPT), KEPT}) == 3 and seed_of(KEPT) >= SECRET
    assert seed_of(7) == seed_of(7) == 7


def test_a_layer_goes_on_from_saved_shares_whatever_the_new_seed_is():
    """N and W~ are memory, not draws: two sessions with other secrets, one state, one prediction."""
    task, plan = make_task(), plan_of()
    session = assemble(task, plan, lambda message: None)
    session.train_epoch(0, task.train)
    other = assemble(task, plan, lambda message: None)
    for name, party in other.parties.items():
        for part, module in party.modules.items():
            module.load_state_dict(session.parties[name].modules[part].state_dict())
        party.cut._seed = secret_seed()
    torch.testing.assert_close(other.predict(task.test), session.predict(task.test), atol=1e-3, rtol=0)


def test_secure_sums_masks_and_shares_are_new_after_a_restart():
    """Keys are agreed on anew, so masks of a step differ; M_A is new too, so two shares of a row differ by noise."""
    ring = Ring(40, 24)

    def masks():
        sides = {name: Agreement(name, "run", ring) for name in "ab"}
        zero = {n: sides[n].meet({m: sides[m].public for m in "ab" if m != n}) for n in "ab"}
        return zero["a"].zero_sum_mask(STEP, (50, 40))

    scheme = Paillier(ring, 512, for_tests=True)
    rows = numbers(100, 4, seed=6)

    def share():
        holder = masking.Holder(scheme, 4, 20, KEPT)  # the same W_mask
        blind = masking.Blind(scheme, 4, 20, holder.public(), holder.operand())
        return holder.open(blind.forward(rows, 100.0)[0], 100)

    for draw in (masks, share):
        change = ring.centred(ring.subtract(draw(), draw())) / 2**40
        assert change.var() == pytest.approx(1 / 12, rel=0.1)
