"""Real parties over a network: keys and certificates, mutual TLS 1.3, and what crosses between machines."""

import os
import sys

# gRPC offers no "TLS 1.3 only". It reads this list of TLS 1.2 suites once, when grpc is imported; ours wants RSA keys,
# and every key here is ECDSA, so a TLS 1.2 handshake finds no common suite. This file runs before any other of net/.
_SUITES = "ECDHE-RSA-AES256-GCM-SHA384"
TLS_13_ONLY = "grpc" not in sys.modules or os.environ.get("GRPC_SSL_CIPHER_SUITES") == _SUITES
os.environ["GRPC_SSL_CIPHER_SUITES"] = _SUITES

# gRPC would print a line for every stranger's failed handshake, as often as the stranger likes; `door` says it once.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
