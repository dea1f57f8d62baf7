"""Tests of the network. cutlayer.net is imported here, before any test imports grpc, so that TLS 1.2 is off."""

import cutlayer.net  # noqa: F401
