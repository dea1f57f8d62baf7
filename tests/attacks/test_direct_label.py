import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import cutlayer as cl
from cutlayer.attack import Form
from cutlayer.attacks import DirectLabel
from cutlayer.auditing.attacking import attack_run
from cutlayer.errors import Inapplicable
from tests.helpers.toy import gradient_view, rng, world


def gradients(logits, labels):
    """What a feature party receives where its embedding is its part of the logits: p - e_y over the batch size."""
    logits = logits.clone().requires_grad_()
    cross_entropy(logits, labels).backward()
    return logits.grad


def guess_on(payload, classes):
    rows = torch.arange(len(payload)).flip(0)
    return DirectLabel().run(gradient_view([(rows, payload)], classes=classes), rng())


def test_the_one_negative_entry_stands_at_the_label():
    payload = torch.tensor([[0.1, -0.3, 0.2], [-0.25, 0.2, 0.05]])
    guess = guess_on(payload, 3)
    assert guess.form is Form.CLASSES
    assert guess.rows.tolist() == [1, 0] and guess.values.tolist() == [1, 0]


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("confidence", [1.0, 30.0])  # at 30, p at the label is 1 in float32 for most rows
def test_every_label_of_summed_logits_is_read(classes, confidence):
    labels = torch.randint(classes, (200,), generator=rng(1))
    logits = confidence * nn.functional.one_hot(labels, classes) + torch.randn(200, classes, generator=rng(2))
    assert guess_on(gradients(logits, labels), classes).values.tolist() == labels.tolist()


def test_it_needs_one_number_per_class():
    with pytest.raises(Inapplicable, match="needs one output per class"):
        guess_on(torch.zeros(4, 3), 2)
    assert DirectLabel().applies(world(0).manifest) == "classes-only"


def test_all_labels_of_digits_without_a_top_and_none_where_noise_drowns_them():
    task = cl.data.digits(parties=2)
    for defences, expected in ([], (1.0, 1.0)), ([cl.defences.GaussianNoise(std=1.0, on="gradient")], (0.05, 0.15)):
        run = cl.train(task, top=nn.Identity(), cut=cl.Sum(), width=10, epochs=2, defences=defences)
        (finding,) = attack_run(run, [DirectLabel()])
        assert expected[0] <= finding.value <= expected[1] and finding.granted == "nothing"
