"""Letters on their way through one forwarder: until when, and who still waits for answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any


class Mail:
    """The way of some letters: through one forwarder, until a deadline.

    Any thread may close it.

    Attributes:
        by: the forwarder.
        away: returns the hosts that are gone.
        is_closed: whether more answers are unwanted.
    """

    def __init__(self, by: str, deadline_s: float, away: Callable[[], Collection[str]]) -> None:
        self.by = by
        self.away = away
        self._end_s = time.monotonic() + deadline_s
        self.is_closed = False
        self._stream: Any = None
        self._through = ""
        self._lock = threading.Lock()
        self._waiting: set[Lettered] = set()

    def join(self, waiting: Lettered) -> None:
        """Stay open for one more stream."""
        self._waiting.add(waiting)

    def leave(self, waiting: Lettered) -> None:
        """Close when no stream waits any more."""
        self._waiting.discard(waiting)
        if not self._waiting:
            self.close()

    def keep(self, stream: Any) -> Any:
        """Note the stream through the forwarder that brings the answers now, and return it."""
        with self._lock:
            self._stream, self._through = stream, self.by
        if self.is_closed:
            stream.cancel()
        return stream

    def left_s(self) -> float:
        """Return the time until the deadline."""
        return max(0.0, self._end_s - time.monotonic())

    def is_late(self) -> bool:
        """Return whether the deadline has passed."""
        return self.left_s() <= 0

    def cut(self, forwarder: str) -> None:
        """End the stream, if it is through this forwarder. Another one takes over."""
        with self._lock:
            if self._stream is not None and self._through == forwarder:
                self._stream.cancel()

    def close(self) -> None:
        """Send no more letters, and have the forwarder say that more answers are unwanted."""
        self.is_closed = True
        with self._lock:
            if self._stream is not None:
                self._stream.cancel()


class Lettered:
    """The replies of one agent of several that one forwarder serves, as the run's other streams see them.

    Attributes:
        name: the agent.
        mail: what its letter is sent with.
        is_over: whether no more replies come this way.

    Args:
        leave: called when it is cancelled.
    """

    def __init__(self, name: str, mail: Mail, leave: Callable[[str, Lettered], None]) -> None:
        self.name = name
        self.mail = mail
        self.is_over = False
        self._leave = leave
        self._direct: Any = None
        self._lock = threading.Lock()
        mail.join(self)

    def finish(self) -> bool:
        """Note that the last reply has come. Return whether it is the first end of this stream."""
        with self._lock:
            is_first = not self.is_over
            self.is_over = True
        self.mail.leave(self)
        return is_first

    def continue_by(self, direct: Any) -> None:
        """Note that the controller calls the agent itself now."""
        self._direct = direct
        self.finish()

    def cancel(self) -> None:
        """Wait for no more replies."""
        if self._direct is not None:
            self._direct.cancel()
        elif self.finish():
            self._leave(self.name, self)
