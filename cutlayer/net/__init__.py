"""Real parties over a network, in five rooms, each building on those before it:

- `wire`: messages as bytes, and frames in order and once each over streams that break;
- `trust`: who is who, by keys and certificates; strangers are refused;
- `peers`: the other parties, who is connected and what they send;
- `party`: one party's process, its file, data, folder, alignment and training;
- `predict`: joint prediction from the parts that every party saved.
"""

import os
import sys

# gRPC offers no "TLS 1.3 only". It reads this list of TLS 1.2 suites once, when grpc is imported; ours wants RSA keys,
# and every key here is ECDSA, so a TLS 1.2 handshake finds no common suite. This file runs before any other of net/.
_SUITES = "ECDHE-RSA-AES256-GCM-SHA384"
TLS_13_ONLY = "grpc" not in sys.modules or os.environ.get("GRPC_SSL_CIPHER_SUITES") == _SUITES
os.environ["GRPC_SSL_CIPHER_SUITES"] = _SUITES

# gRPC would print a line for every stranger's failed handshake, as often as the stranger likes; ours is rate-limited.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
