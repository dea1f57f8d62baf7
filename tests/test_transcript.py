"""What crossed is kept on disk as asked, counted to the byte, and read back unchanged."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.transcript import LAST, Keep, Policy, Transcript
from tests.helpers.small_task import bottom, make_task, top


def message(step, rows, width=3, sender="b", receiver="a", kind=Kind.EMBEDDING, phase=Phase.TRAIN):
    rows = torch.as_tensor(rows)
    payload = rows[:, None].float() * 10 + torch.arange(width) + step * 1000
    return Message(Batch(step, phase, rows), sender, receiver, kind, payload)


def fill(transcript, epochs=2, steps=3):
    sent = []
    for epoch in range(epochs):
        transcript.begin_epoch(epoch, is_last=epoch == epochs - 1)
        for i in range(steps):
            step = epoch * steps + i
            for entry in (message(step, [step, step + 1]), message(step, [step], sender="a", receiver="b")):
                transcript.record(entry)
                sent.append(entry)
    return sent


@pytest.mark.parametrize(("policy", "kept"), [("none", 0), ("last", 3), ("all", 6), ("1,4", 2)])
def test_keep_policies(policy, kept):
    transcript = Transcript(Keep.parse(policy))
    fill(transcript)
    channel = transcript.channels.get(("b", "a", Kind.EMBEDDING, Phase.TRAIN))
    assert (len(channel) if channel else 0) == kept
    assert transcript.traffic() == {"a": {"sent": 72, "received": 144}, "b": {"sent": 144, "received": 72}}


def test_messages_come_back_as_they_were(tmp_path):
    transcript = Transcript(Keep(Policy.ALL), tmp_path)
    sent = [m for m in fill(transcript) if m.sender == "b"]
    transcript.save()
    for source in (transcript, Transcript.open(tmp_path)):
        channel = source.channels["b", "a", Kind.EMBEDDING, Phase.TRAIN]
        back = list(channel.messages())
        assert [m.batch.step for m in back] == [m.batch.step for m in sent]
        assert all(torch.equal(x.payload, y.payload) for x, y in zip(back, sent, strict=True))
        assert all(torch.equal(x.batch.rows, y.batch.rows) for x, y in zip(back, sent, strict=True))
        rows, payload, steps = channel.read(LAST)
        assert rows.tolist() == [3, 4, 4, 5, 5, 6] and steps.tolist() == [3, 3, 4, 4, 5, 5]
        assert torch.equal(payload, torch.cat([m.payload for m in sent[3:]]))
        assert source.traffic()["b"]["sent"] == 144


def test_payloads_are_memory_mapped_and_a_reader_cannot_change_them(tmp_path):
    transcript = Transcript(Keep(Policy.ALL), tmp_path)
    fill(transcript)
    channel = transcript.channels["b", "a", Kind.EMBEDDING, Phase.TRAIN]
    first = channel.read()[1]
    before = first.clone()
    first.zero_()  # copy on write: only this map changes
    assert torch.equal(channel.read()[1], before)


def test_early_stopping_keeps_only_the_last_epoch():
    transcript = Transcript(Keep(Policy.LAST))
    for epoch in range(4):
        transcript.begin_epoch(epoch, is_last=True)
        transcript.record(message(epoch, [1, 2]))
    rows, payload, _ = transcript.channels["b", "a", Kind.EMBEDDING, Phase.TRAIN].read(LAST)
    assert len(rows) == 2 and payload[0, 0] == 3010


@given(st.integers(0, 6))
def test_truncate_forgets_what_came_later(step):
    transcript = Transcript(Keep(Policy.ALL))
    fill(transcript)
    channel = transcript.channels["b", "a", Kind.EMBEDDING, Phase.TRAIN]
    channel.truncate(step)
    transcript.record(message(50, [9, 9]))
    assert [m.batch.step for m in channel.messages()] == [*range(step), 50]
    assert list(channel.messages())[-1].payload[0, 0] == 50090


def test_a_damaged_transcript_is_told(tmp_path):
    transcript = Transcript(Keep(Policy.ALL), tmp_path)
    fill(transcript)
    transcript.save()
    (tmp_path / "channel0.bin").write_bytes(b"short")
    with pytest.raises(cl.RunError, match="transcript is damaged"):
        Transcript.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.pop("bytes"),
        lambda index: index["channels"][0].update(dtype="object"),
        lambda index: index["channels"][0].update(tail=[10**12]),
        lambda index: index["channels"][0].update(tail="x"),
        lambda index: index["channels"][0].update(address=["a", "b", "secret", "train"]),
        lambda index: index.update(channels=7),
    ],
)
def test_an_odd_index_is_told_in_one_sentence(tmp_path, change):
    transcript = Transcript(Keep(Policy.ALL), tmp_path)
    fill(transcript)
    transcript.save()
    index = json.loads((tmp_path / "index.json").read_text())
    change(index)
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(cl.RunError, match="damaged"):
        Transcript.open(tmp_path)


def test_a_stranger_cannot_point_the_index_at_other_files(tmp_path):
    transcript = Transcript(Keep(Policy.ALL), tmp_path / "t")
    fill(transcript)
    transcript.save()
    index = json.loads((tmp_path / "t/index.json").read_text())
    index["channels"][0]["file"] = "../../outside"
    (tmp_path / "t/index.json").write_text(json.dumps(index))
    with pytest.raises(cl.RunError, match="damaged"):
        Transcript.open(tmp_path / "t")


def test_a_view_outlives_its_transcript():
    transcript = Transcript(Keep(Policy.ALL))
    fill(transcript)
    channel = transcript.channels["b", "a", Kind.EMBEDDING, Phase.TRAIN]
    folder = transcript.folder
    del transcript
    assert len(channel.read()[0]) == 12
    del channel
    assert not folder.exists()


def test_bytes_of_a_run_are_what_crossed():
    """120 training rows, 6 floats each way per epoch; 30 test rows one way."""
    run = cl.train(
        make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=cl.Recipe(epochs=2, batch_size=32), keep="none"
    )
    embeddings, gradients = (2 * 120 + 30) * 6 * 4, 2 * 120 * 6 * 4
    assert run.transcript.traffic() == {
        "p0": {"sent": 2 * gradients, "received": 2 * embeddings},
        "p1": {"sent": embeddings, "received": gradients},
        "p2": {"sent": embeddings, "received": gradients},
    }
    assert not run.transcript.channels


def test_unknown_policy():
    with pytest.raises(cl.ConfigError, match=r"Unknown keep policy 'lst'.*Did you mean 'last'"):
        Keep.parse("lst")
