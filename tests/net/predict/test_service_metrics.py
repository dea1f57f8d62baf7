"""Metrics of the online service."""

import re

from cutlayer.net.predict.service_metrics import ServiceMetrics


def test_metrics_are_what_prometheus_reads():
    metrics = ServiceMetrics()
    metrics.count_request(200, 0.02)
    metrics.count_request(503, 20.0)
    metrics.count_rows(3, 1, 0)
    text = metrics.text({"shop": True, "tele": False})
    assert 'cutlayer_requests_total{code="200"} 1' in text and "cutlayer_errors_total 1" in text
    assert 'cutlayer_request_seconds_bucket{le="0.025"} 1' in text
    assert 'cutlayer_request_seconds_bucket{le="+Inf"} 2' in text and "cutlayer_request_seconds_count 2" in text
    assert 'cutlayer_party_connected{party="tele"} 0' in text
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"\})? [0-9.]+', line), line
