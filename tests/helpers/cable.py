"""A cable between parties, for tests: it can be cut, slowed down or held."""

import socket
import threading
import time
from contextlib import suppress


class Cable:
    """A TCP proxy between feature parties and the label party, which can be cut, slowed down or held."""

    def __init__(self, port):
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._pairs = []
        self._flows = threading.Event()
        self._flows.set()
        self.delay = 0.0
        self._open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """End every connection now, and say how many; new ones are let through."""
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def hold(self):
        """Let nothing through, and say nothing about it."""
        self._flows.clear()

    def release(self):
        """Let everything through again."""
        self._flows.set()

    def close(self):
        """End it."""
        self._open = False
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.release()
        self.cut()

    def _accept(self):
        while self._open:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self._pairs.append((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay:
                    time.sleep(self.delay)
                self._flows.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        source.close()
