"""Listen, answer and end."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.parts.counting import counted
from gavotte.serve.access import Access
from gavotte.serve.question import ServeQuestion
from gavotte.serve.service import Service

with needs("serve"):
    from aiohttp import web
    from aiohttp.http_exceptions import HttpProcessingError

START_S, END_S = 20.0, 5.0
"""How long the server may take to listen, and to end."""


@dataclass(frozen=True)
class ServeSession:
    """What is called meanwhile.

    Attributes:
        ready: called with the address to open once the server listens.
        complain: called with a warning.
        note: called with a line about what has changed.
        token: the secret in that address; empty = the question's.
    """

    ready: Callable[[str], None]
    complain: Callable[[str], None]
    note: Callable[[str], None]
    token: str = ""


def serve(question: ServeQuestion, session: ServeSession) -> None:
    """Serve until an exception ends the wait, such as the one of a signal; or only remove the labels of nodes.

    Raises:
        GavotteError: when a file cannot be read, or the address cannot be used.
    """
    question.check()
    if question.remove_labels:
        from gavotte.agents.kubeconfig import connected
        from gavotte.serve.labelling import remove_labels

        count = remove_labels(connected(question.context, retries=0))
        session.note(f"labels removed from {counted(count, 'node')}")
        return
    access = Access(session.token or question.token(), question.password(), question.is_local)
    tls = _tls(question)
    # A second service at the same port ends before it changes any label.
    with (
        Service(question, session.complain, session.note) as service,
        _watching(question, service, session),
        _Server(service.application(access), question, tls, session.complain) as port,
        _labelling(question, service, session),
    ):
        scheme, host = (
            "https" if tls else "http",
            f"[{question.address}]" if ":" in question.address else question.address,
        )
        query = "" if access.password else f"?token={access.token}"
        session.ready(f"{scheme}://{host}:{port}/{query}")
        threading.Event().wait()


@contextmanager
def _watching(question: ServeQuestion, service: Service, session: ServeSession) -> Iterator[None]:
    """Follow where the tasks' pods are, if that is asked for. Requests are answered after the first look."""
    if not question.watch_pods:
        yield
        return
    from gavotte.agents.kubeconfig import connected
    from gavotte.export.placed import TASK
    from gavotte.serve.pods import PodWatch
    from gavotte.serve.scheduling import INDICES

    api = connected(question.context, retries=0)
    with PodWatch(api, service.task_nodes, (TASK, *INDICES), session.complain):
        yield


@contextmanager
def _labelling(question: ServeQuestion, service: Service, session: ServeSession) -> Iterator[None]:
    """Keep nodes' labels in a thread of its own, if that is asked for."""
    if not question.label_nodes or service.network is None:
        yield
        return
    from gavotte.agents.kubeconfig import connected
    from gavotte.export.labels import CURRENT, OLDER
    from gavotte.serve.labelling import NodeLabels

    keys = OLDER if question.older_labels else CURRENT
    api = connected(question.context, retries=0)
    labels = NodeLabels(api, service.network.get, session.note, session.complain, keys=keys)
    stop = threading.Event()
    thread = threading.Thread(target=labels.keep, args=(stop,), name="labels", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(END_S)


def _tls(question: ServeQuestion) -> ssl.SSLContext | None:
    if question.certificate is None or question.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(question.certificate, question.key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "cannot be read"
        raise GavotteError(
            f"{question.certificate}, {question.key}: {reason}", hint="give a certificate and its key in PEM"
        ) from None
    return context


class _Complaints(logging.Handler):
    """What the server logs, a line each. What is no HTTP is dropped: anybody can send it as often as they like."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            reason = "" if error is None else f": {type(error).__name__}: {error}"
            self._complain(" ".join(f"{record.getMessage()}{reason}".split()))


class _Server:
    """A server on a thread of its own, so that a signal's exception never lands in the middle of an answer."""

    def __init__(
        self,
        application: web.Application,
        question: ServeQuestion,
        tls: ssl.SSLContext | None,
        complain: Callable[[str], None],
    ) -> None:
        self._application = application
        self._logger = logging.Logger("gavotte.serve")
        self._logger.addHandler(_Complaints(complain))
        self._question = question
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._end: asyncio.Event | None = None
        self._listening = threading.Event()
        self._failure: OSError | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)

    def __enter__(self) -> int:
        """Listen; return the port."""
        self._thread.start()
        self._listening.wait(START_S)
        if self._failure is not None or not self._port:
            # asyncio puts a sentence of its own in the place of the system's.
            errno = None if self._failure is None else self._failure.errno
            reason = f"no answer within {START_S:.0f} s" if errno is None else os.strerror(errno).lower()
            place = f"{self._question.address}:{self._question.port}"
            raise GavotteError(f"cannot listen at {place}: {reason}", hint="choose another --address or --port")
        return self._port

    def __exit__(self, *_: object) -> None:
        """End all connections."""
        if self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._answer())

    async def _answer(self) -> None:
        runner = web.AppRunner(self._application, access_log=None, handle_signals=False, logger=self._logger)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._question.address, self._question.port, ssl_context=self._tls, shutdown_timeout=1.0
            )
            await site.start()
            self._port = runner.addresses[0][1]
            self._end = asyncio.Event()
            self._listening.set()
            await self._end.wait()
        except OSError as error:
            self._failure = error
            self._listening.set()
        finally:
            await runner.cleanup()
