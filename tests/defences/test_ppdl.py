"""PPDL: the sparse vector technique, by hand and by its scales."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.defence import Course, Local, Place
from cutlayer.defences import PPDL
from cutlayer.draws import STEPS, Draws
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.spec import parse

QUIET = 1e15  # an epsilon at which nothing is blurred


def test_without_noise_what_reaches_the_threshold_is_sent_clipped(local):
    payload = torch.tensor([[0.5, -0.2, 0.05], [-3.0, 0.1, 0.0]])
    sent = PPDL(epsilon=QUIET, bound=1.0, threshold=0.09, share=1.0).protect(payload, local())
    assert sent.flatten().tolist() == pytest.approx([0.5, -0.2, 0, -1.0, 0.1, 0], abs=1e-6)


def test_no_more_than_the_share_is_sent_and_which_is_a_matter_of_chance(local):
    defence = PPDL(epsilon=QUIET, bound=10.0, threshold=0.1, share=0.25)
    sent = torch.stack([defence.protect(torch.ones(2, 4), local(seed=seed)) for seed in range(300)])
    assert ((sent != 0).sum(dim=(1, 2)) == 2).all()
    assert (sent != 0).double().mean(dim=0).flatten().tolist() == pytest.approx([0.25] * 8, abs=0.08)


def steps_of_laplace(count, scale, grid, rng):
    first, second = (rng.exponential((2, count)) * scale / grid).floor()
    return (first - second) * grid


def test_by_hand_with_the_same_draws(local):
    """Entries are visited in a drawn order; each bar is used until an entry reaches it."""
    payload = torch.tensor([[0.9, -0.1, 0.4, -0.6, 2.0, 0.3]])
    epsilon, bound, threshold, most = 300.0, 1.0, 0.2, 3
    clipped, rng = payload[0].clamp(-1, 1), local(seed=7).rng
    order = rng.permutation(6).tolist()
    choosing, blurring = (2 * most * 2 * bound / (part * epsilon) for part in (8 / 9, 2 / 9))
    query = steps_of_laplace(6, 2 * choosing, choosing / STEPS, rng).tolist()
    bars = (threshold + steps_of_laplace(most, choosing, choosing / STEPS, rng)).tolist()
    chosen = []
    for entry in order:
        if len(chosen) < most and abs(clipped[entry].item()) + query[entry] >= bars[len(chosen)]:
            chosen.append(entry)
    expected, blur = torch.zeros(6), steps_of_laplace(len(chosen), blurring, 4 * choosing / STEPS, rng)
    for entry, noise in zip(chosen, blur, strict=True):
        expected[entry] = (clipped[entry] + noise).clamp(-1, 1)
    sent = PPDL(epsilon=epsilon, bound=bound, threshold=threshold, share=0.5).protect(payload, local(seed=7))
    assert len(chosen) == 3 and torch.allclose(sent[0], expected, atol=4 * choosing / STEPS)


def test_values_have_laplace_noise_of_their_part_of_epsilon(local):
    count = 40_000
    defence = PPDL(epsilon=18 * count / 0.01, bound=1.0, threshold=0.0, share=1.0)  # 18 c / epsilon times bound: 0.01
    noise = defence.protect(torch.full((count, 1), 0.5), local()) - 0.5
    assert noise.mean().item() == pytest.approx(0, abs=0.0005)
    assert noise.abs().mean().item() == pytest.approx(0.01, rel=0.03)
    assert noise.var().item() == pytest.approx(2 * 0.01**2, rel=0.06)


def test_at_the_papers_numbers_signs_are_drawn_at_random(local):
    payload = torch.full((100, 100), 1e-3)
    sent = PPDL().protect(payload, local())
    sent = sent[sent != 0]
    assert len(sent) == 1000 and (sent.abs() > 0.99e-3).double().mean() > 0.99
    assert (sent > 0).double().mean().item() == pytest.approx(0.5, abs=0.06)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=12, max_size=12), st.floats(0.01, 1e6), st.floats(0.01, 1))
def test_bounded_and_few_whatever_comes(values, epsilon, share):
    payload = torch.tensor(values).view(4, 3)
    here = Local(Place.GRADIENT, Draws(0), True, torch.arange(4))
    sent = PPDL(epsilon=epsilon, share=share).protect(payload, here)
    assert sent.abs().max() <= 1.0001e-3 and sent.count_nonzero() <= max(1, share * 12 + 1e-6)


def test_a_run_with_it_and_what_its_record_says(local):
    for place in (Place.EMBEDDING, Place.LOGITS):
        payload = torch.rand(2, 2)
        assert PPDL().protect(payload, local(place)) is payload
    task = cl.data.digits(parties=2, limit=300)
    run = cl.train(task, defences=[PPDL()], recipe=cl.Recipe(epochs=2, batch_size=32), keep="all")
    sent = run.view("party2").channel(Kind.GRADIENT, peer="party2").read()[1]
    assert (sent != 0).double().mean() <= 0.1 and sent.abs().max() <= 1.0001e-3
    course = Course(rows=100, batch_size=32, epochs=2, feature_parties=3, classes=2)
    assert PPDL(epsilon=1.5).privacy(course).epsilon == 36  # 2 epochs of 4 batches to 3 parties


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "ppdl:epsilon=9.0,bound=0.01,threshold=0.0,share=0.5"
    assert parse(text, package, Defence, "defence").describe() == text
    for wrong in ({"epsilon": 0}, {"bound": 0}, {"threshold": -1}, {"share": 0}, {"share": 2}):
        with pytest.raises(ConfigError):
            PPDL(**wrong)
