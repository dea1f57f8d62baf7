"""Undefended split training is joint training: the same network, the same bits."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

import cutlayer as cl
from cutlayer.checkpoint import digest
from cutlayer.data.task import Features, Goal, Task
from cutlayer.plan import Plan, assemble
from cutlayer.rng import Stream, generator
from cutlayer.session import batches
from tests.helpers.small_task import WIDTH, bottom, make_task, top


class Joint:
    """The same network as one graph with one optimiser, drawing dropout from the same streams."""

    def __init__(self, task: Task, plan: Plan) -> None:
        session = assemble(task, plan, lambda message: None)
        label = session.label_party
        self.task, self.plan = task, plan
        self.bottoms = {name: deepcopy(session.parties[name].modules["bottom"]) for name in task.features}
        self.top = deepcopy(label.top)
        modules = [*self.bottoms.values(), self.top]
        self.optimizer = plan.recipe.optimizer([p for m in modules for p in m.parameters()])
        self.streams = {name: Stream(plan.seed, name) for name in {*task.features, task.label_party}}

    def train(self, epochs: int) -> None:
        mean, spread = cl.plan.target_scale(self.task.labels, self.task.goal, self.task.train)
        for epoch in range(epochs):
            for group in self.optimizer.param_groups:
                group["lr"] = self.plan.recipe.rate(epoch)
            order = torch.randperm(len(self.task.train), generator=generator(self.plan.seed, "order", epoch))
            for rows in batches(self.task.train[order], self.plan.recipe.batch_size):
                embeddings = []
                for name, model in self.bottoms.items():
                    with self.streams[name].scope():
                        embeddings.append(model(self.task.features[name].values[rows]))
                with self.streams[self.task.label_party].scope():
                    outputs: Tensor = self.top(self.plan.cut.join(embeddings))
                labels = self.task.labels[rows]
                if self.task.goal is Goal.REGRESSION:
                    loss = mse_loss(outputs[:, 0], (labels - mean) / spread)
                else:
                    loss = cross_entropy(outputs, labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


@pytest.mark.parametrize("optimiser", list(cl.Optimiser))
@pytest.mark.parametrize("cut", [cl.Concat(), cl.Sum()])
@pytest.mark.parametrize(("parties", "label_party"), [(2, "p0"), (2, "server"), (3, "p1")])
def test_split_training_equals_joint_training_bit_for_bit(parties, label_party, cut, optimiser):
    task = make_task(parties, label_party)
    recipe = cl.Recipe(epochs=3, batch_size=32, optimiser=optimiser, lr=0.01, schedule=cl.Steps(every=2))
    plan = Plan(bottoms=bottom, top=top, width=WIDTH, cut=cut, recipe=recipe, seed=5)
    reference = Joint(task, plan)
    reference.train(3)
    run = cl.training.train_plan(task, plan)
    for name, model in reference.bottoms.items():
        assert digest(run.session.parties[name].modules["bottom"]) == digest(model), name
    assert digest(run.session.label_party.top) == digest(reference.top)


def test_regression_too():
    task = make_task(2, "p0", Goal.REGRESSION)
    recipe = cl.Recipe(epochs=3, batch_size=32)
    plan = Plan(bottoms=bottom, top=top, width=WIDTH, recipe=recipe)
    reference = Joint(task, plan)
    reference.train(3)
    run = cl.training.train_plan(task, plan)
    assert digest(run.session.label_party.top) == digest(reference.top)
    assert set(run.metrics) == {"mse", "r2"}


def test_convolutional_embeddings_too():
    rng = generator(1, "images")
    task = Task(
        name="images",
        features={n: Features(torch.rand(80, 1, 12, 6, generator=rng)) for n in ("left", "right")},
        labels=torch.randint(0, 2, (80,), generator=rng),
        label_party="left",
        goal=Goal.BINARY,
        classes=("no", "yes"),
        train=torch.arange(64),
        test=torch.arange(64, 80),
    )
    plan = Plan(
        bottoms=lambda features, width: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.2)),
        top=nn.Sequential(nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(4 * 10 * 4, 2)),
        recipe=cl.Recipe(epochs=2, batch_size=16),
    )
    reference = Joint(task, plan)
    reference.train(2)
    run = cl.training.train_plan(task, plan)
    assert digest(run.session.label_party.top) == digest(reference.top)
    assert digest(run.session.parties["right"].modules["bottom"]) == digest(reference.bottoms["right"])


def test_the_comparison_can_fail():
    """A single different bit of one weight changes the digest."""
    model = nn.Linear(3, 2)
    before = digest(model)
    with torch.no_grad():
        model.weight[0, 0] = torch.nextafter(model.weight[0, 0], torch.tensor(9.0))
    assert digest(model) != before


def test_the_same_seed_gives_the_same_models_and_another_seed_others():
    task = make_task(2, "p0")
    runs = [
        cl.train(task, bottoms=bottom, top=top, recipe=cl.Recipe(epochs=2, batch_size=32), seed=seed)
        for seed in (0, 0, 1)
    ]
    hashes = [run.to_json()["models"] for run in runs]
    assert hashes[0] == hashes[1]
    assert all(hashes[0][name] != hashes[2][name] for name in hashes[0])
