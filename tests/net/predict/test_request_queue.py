"""Requests that wait are joined, tried again or given up, and each gets its own answers."""

import pytest

from cutlayer.errors import ProtocolError
from cutlayer.net.peers.events import Regroup
from cutlayer.net.predict.request_queue import QueueFull, RequestLost, RequestQueue
from tests.helpers.prediction import PretendedPredictor
from tests.helpers.waiting import wait_for


@pytest.fixture
def make_queue(monkeypatch):
    monkeypatch.setattr("cutlayer.net.predict.request_queue.RETRY_SECONDS", 0.05)
    queues = []

    def make(*errors):
        queues.append(RequestQueue(PretendedPredictor(*errors), lambda text: None))
        return queues[-1]

    yield make
    for queue in queues:
        if queue._thread.is_alive():
            queue.close()


def test_requests_that_wait_are_joined_and_each_gets_its_own_answers(make_queue):
    queue = make_queue()
    waiting = [queue.submit([b"%d" % number] * (number + 1), 10) for number in range(5)]
    queue.open()
    for number, future in enumerate(waiting):
        answers = future.result(10)
        assert [float(answer.outputs[0]) for answer in answers] == [number] * (number + 1)
    assert queue.predictor.sizes == [15] and queue.predictor.meetings == 1


def test_a_request_is_tried_again_after_a_party_started_again(make_queue):
    queue = make_queue(Regroup("shop"))
    queue.open()
    assert len(queue.submit([b"1"], 10).result(10)) == 1 and queue.predictor.meetings == 2


@pytest.mark.parametrize("error", [ProtocolError("Expected this."), KeyError("a secret id")])
def test_a_request_is_lost_with_an_error_and_the_next_one_is_answered(make_queue, error):
    queue = make_queue(error)
    queue.open()
    with pytest.raises(RequestLost):
        queue.submit([b"1"], 10).result(10)
    assert len(queue.submit([b"2"], 10).result(10)) == 1
    assert "secret" not in queue.problem and queue.ready


def test_too_many_requests_are_turned_away_and_old_ones_dropped(make_queue):
    queue = make_queue()
    old = queue.submit([b"1"] * 4096, 0.0)
    for _ in range(15):
        queue.submit([b"1"] * 4096, 10)
    with pytest.raises(QueueFull):
        queue.submit([b"1"], 10)
    queue.open()
    wait_for(lambda: not queue._waiting)
    assert len(queue.submit([b"1"], 10).result(10)) == 1
    assert not old.done() and sum(queue.predictor.sizes) == 15 * 4096 + 1
