import copy

import numpy as np
import pytest
from scipy.stats import chi2

from cutlayer.crypto import Agreement, Ring
from cutlayer.errors import ConfigError, ProtocolError


def meeting(names, run="run 1", ring=None):
    halves = {name: Agreement(name, run, ring or Ring()) for name in names}
    publics = {name: half.public for name, half in halves.items()}
    return {name: half.meet({p: k for p, k in publics.items() if p != name}) for name, half in halves.items()}


@pytest.mark.parametrize("names", ["ab", "abc", "dacbe"])
@pytest.mark.parametrize("bits", [40, 48])
def test_masks_of_all_parties_sum_to_zero(names, bits):
    ring = Ring(bits)
    parties = meeting(names, ring=ring)
    for step in (0, 1, 2**40):
        masks = [party.zero_sum_mask(step, (16, 8)) for party in parties.values()]
        assert not ring.sum(masks).any()
        assert all(np.count_nonzero(mask) > 100 for mask in masks)
        if len(names) > 2:
            assert ring.sum(masks[1:]).any()


def test_masks_differ_between_steps_purposes_and_runs():
    party = meeting("ab")["a"]
    masks = [party.zero_sum_mask(step, (4, 4), purpose) for step in (0, 1) for purpose in ("forward", "backward")]
    masks += [meeting("ab", run)["a"].zero_sum_mask(0, (4, 4)) for run in ("run 1", "run 2")]
    assert len({mask.tobytes() for mask in masks}) == len(masks)


def test_a_step_is_used_once():
    party = meeting("ab")["a"]
    party.zero_sum_mask(5, (2, 2))
    party.zero_sum_mask(5, (2, 2), "backward")
    for shape in ((2, 2), (3, 1)):
        with pytest.raises(ProtocolError, match="step 5 again"):
            party.zero_sum_mask(5, shape)
    with pytest.raises(ConfigError):
        party.zero_sum_mask(-1, (2, 2))


def test_seeds_are_bound_to_the_names_and_the_run():
    """The same keys under another run or another name give masks that do not cancel."""
    ring = Ring()
    for run, name in (("run 2", "a"), ("run 1", "c")):
        a, b = Agreement("a", "run 1", ring), Agreement("b", run, ring)
        left, right = a.meet({"b": b.public}), b.meet({name: a.public})
        signs = ring.sum([left.zero_sum_mask(0, (4, 4)), right.zero_sum_mask(0, (4, 4))])
        differences = ring.subtract(left.zero_sum_mask(1, (4, 4)), right.zero_sum_mask(1, (4, 4)))
        assert signs.any() and differences.any()


def test_streams_are_uniform():
    draws = meeting("ab")["a"].zero_sum_mask(0, (1_000_000,))
    for shift in range(0, 40, 8):
        counts = np.bincount((draws >> shift) & 255, minlength=256)
        assert 1e-7 < chi2.sf(((counts - draws.size / 256) ** 2 / (draws.size / 256)).sum(), 255) < 1 - 1e-7


def test_bad_public_keys_are_refused():
    ring = Ring()
    for key in (b"", b"x" * 31, b"x" * 33, bytes(32), (1).to_bytes(32, "little")):
        with pytest.raises(ProtocolError, match="from b"):
            Agreement("a", "run", ring).meet({"b": key})
    half = Agreement("a", "run", ring)
    with pytest.raises(ProtocolError, match="twice"):
        half.meet({"b": half.public})
    for publics in ({}, {"a": b"x" * 32}):
        with pytest.raises(ConfigError):
            half.meet(publics)


def test_an_agreement_meets_once_and_shows_nothing():
    a, b = Agreement("a", "run", Ring()), Agreement("b", "run", Ring())
    party = a.meet({"b": b.public})
    with pytest.raises(ProtocolError, match="one meeting"):
        a.meet({"b": b.public})
    assert repr(party) == "ZeroSum(a with b)" and repr(a) == "Agreement(a, run run)"
    for secret in (party, b):
        with pytest.raises(TypeError, match="never"):
            copy.copy(secret)
