"""Bodies of requests: JSON of unknown origin."""

from __future__ import annotations

import json
import re
from typing import Any

from gavotte.errors import FormatError
from gavotte.extras import needs
from gavotte.formats.files.reading import parse_json

with needs("serve"):
    from aiohttp import web

SOURCE = "request"
"""What errors call the body."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Two of them are one character. One alone is JSON, but no text."""


async def read_json(request: web.Request) -> Any:
    """Return the body of a request, parsed; None = it is empty.

    Raises:
        FormatError: when it is no JSON, or has text that cannot be sent back.
    """
    content = await request.read()
    if not content.strip():
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(SOURCE, "", f"is not UTF-8 text (byte {error.start})", "send JSON as UTF-8") from None
    document = parse_json(text, SOURCE)
    if _SURROGATE.search(text):
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise FormatError(SOURCE, "", "has half of a character", "send no single surrogates") from None
    return document


def refused(error: Exception) -> web.Response:
    """Return the answer to a request that cannot be read."""
    return web.Response(status=400, text=f"{error}\n")
