"""The loop carries messages and knows nothing else."""

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.cut import Gathered, collect
from cutlayer.cuts.sum import Sum
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.session import batches, exchange
from tests.helpers.small_task import bottom, make_task, top

BATCH = Batch(0, Phase.TRAIN, torch.arange(4))


def say(sender, receiver, kind=Kind.EMBEDDING, batch=BATCH):
    return Message(batch, sender, receiver, kind, torch.zeros(4, 2))


def test_messages_are_carried_until_everyone_has_finished():
    def asker():
        yield say("a", "b")
        answer = yield None
        return answer.payload + 1

    def answerer():
        question = yield None
        assert question.sender == "a"
        yield say("b", "a")
        return torch.tensor(7)

    seen = []
    results = exchange({"a": asker(), "b": answerer()}, seen.append)
    assert [(m.sender, m.receiver) for m in seen] == [("a", "b"), ("b", "a")]
    assert results["a"].sum() == 8 and results["b"] == 7


def test_a_party_that_waits_for_nothing_is_named():
    def waiter():
        yield None

    with pytest.raises(ProtocolError, match=r"Still waiting .*: b"):
        exchange({"b": waiter()}, lambda m: None)


def test_a_message_to_someone_who_has_finished_is_refused():
    def talker():
        yield say("a", "b")

    def finished():
        return
        yield

    with pytest.raises(ProtocolError, match="b, who expects nothing more"):
        exchange({"b": finished(), "a": talker()}, lambda m: None)


@pytest.mark.parametrize(
    "wrong",
    [
        say("b", "label", Kind.GRADIENT),
        say("stranger", "label"),
        say("b", "label", batch=Batch(1, Phase.TRAIN, torch.arange(4))),
    ],
)
def test_wrong_kind_sender_or_step_is_refused(wrong):
    talk = collect(BATCH, Kind.EMBEDDING, ["b", "c"])
    next(talk)
    with pytest.raises(ProtocolError, match="Expected a embedding of step 0 from b or c"):
        talk.send(wrong)


def test_embeddings_meet_in_the_rosters_order_whoever_answers_first():
    def joined(order):
        talk = cl.Concat().gather(cl.cut.Roster("l", ("b", "c")), BATCH, None)
        next(talk)
        payload = {"b": torch.zeros(4, 1), "c": torch.ones(4, 1)}
        try:
            for name in order:
                talk.send(Message(BATCH, name, "l", Kind.EMBEDDING, payload[name]))
        except StopIteration as end:
            return end.value.joint

    assert torch.equal(joined(["b", "c"]), joined(["c", "b"]))


def test_a_wrong_shape_is_refused():
    talk = cl.Sum().offer("b", cl.cut.Roster("l", ("b",)), BATCH, torch.zeros(4, 3))
    next(talk)
    next(talk)
    with pytest.raises(ProtocolError, match=r"gradient of shape \(4, 3\), got \(4, 2\)"):
        talk.send(say("l", "b", Kind.GRADIENT))


class Masked(Sum):
    """A sum under masks: three messages per batch and feature party, through the same loop."""

    def offer(self, name, roster, batch, embedding, encoding):
        inbox = yield from collect(batch, Kind.EMBEDDING, (roster.label_party,))
        mask = inbox[roster.label_party].payload
        return (yield from super().offer(name, roster, batch, embedding + mask, encoding))

    def gather(self, roster, batch, own):
        mask = torch.full((len(batch.rows), 6), 8.0)
        for name in roster.feature_parties:
            yield Message(batch, roster.label_party, name, Kind.EMBEDDING, mask)
        meeting = yield from super().gather(roster, batch, own)
        return Gathered(meeting.joint - mask * len(roster.feature_parties), meeting.arrived)


def test_a_cut_with_more_messages_needs_no_change_in_the_loop():
    task = make_task(3, "p0")
    recipe = cl.Recipe(epochs=1, batch_size=40, optimiser=cl.Optimiser.SGD)
    plain, masked = (
        cl.train(task, bottoms=bottom, top=top, width=6, cut=cut, recipe=recipe, keep="all")
        for cut in (Sum(), Masked())
    )
    kinds = [(m.sender, m.receiver, m.kind.value) for c in masked.transcript.channels.values() for m in c.messages()]
    assert kinds.count(("p0", "p1", "embedding")) == 3 and kinds.count(("p1", "p0", "embedding")) == 3
    for name, model in plain.models.items():
        for weight, expected in zip(model.parameters(), masked.models[name].parameters(), strict=True):
            assert torch.allclose(weight, expected, atol=1e-6)


def test_a_last_batch_of_one_row_joins_the_one_before():
    assert [len(b) for b in batches(torch.arange(9), 4)] == [4, 5]
    assert [len(b) for b in batches(torch.arange(10), 4)] == [4, 4, 2]
    assert [len(b) for b in batches(torch.arange(1), 4)] == [1]


def test_prediction_leaves_models_and_batch_norm_as_they_were():
    run = cl.train(make_task(2, "p0"), bottoms=bottom, top=top, recipe=cl.Recipe(epochs=1, batch_size=32))
    before = run.to_json()["models"]
    first, second = run.predict(run.task.test), run.predict(run.task.test)
    assert torch.equal(first, second) and run.to_json()["models"] == before


def test_sums_need_one_width():
    with pytest.raises(cl.ConfigError, match=r"one shape to add, got \[\(4,\), \(5,\)\]"):
        cl.Sum().shape([(4,), (5,)])
    with pytest.raises(cl.ConfigError, match="differ in their first size only"):
        cl.Concat().shape([(4, 2, 2), (4, 3, 3)])
    assert cl.Concat().shape([(4, 2, 2), (5, 2, 2)]) == (9, 2, 2)


def test_a_peer_with_another_width_is_refused_by_the_sum():
    with pytest.raises(ProtocolError, match="embeddings of one shape to add"):
        cl.Sum().join([torch.zeros(4, 3), torch.zeros(4, 1)])


def test_a_bottom_that_loses_rows_is_refused():
    with pytest.raises(cl.ConfigError, match="one row per input row"):
        cl.train(make_task(2, "p0"), bottoms=lambda f, w: nn.Flatten(0), recipe=cl.Recipe(batch_size=32))
