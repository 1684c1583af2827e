"""A server that answers has answered: only one that is away is asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from vgpumgr.api.problems import problem
from vgpumgr.client.api_client import ApiClient, ServerAddress
from vgpumgr.endpoints.pools import LIST_POOLS
from vgpumgr.model.errors import HostUnreachable, OutcomeUnknown, VgpumgrError


class _Answers(BaseHTTPRequestHandler):
    """A problem, whatever is asked."""

    error: ClassVar[VgpumgrError]
    asked: ClassVar[int] = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        answer = problem(self.error)
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(bytes(answer.body))

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.mark.parametrize("error", [HostUnreachable("h1 is away"), OutcomeUnknown("it was cut")])
def test_what_a_server_says_of_a_host_is_told_at_once(
    server: ThreadingHTTPServer, error: VgpumgrError
) -> None:
    _Answers.error, _Answers.asked = error, 0
    client = ApiClient(ServerAddress(host="127.0.0.1", port=server.server_port, tls=False))
    with pytest.raises(type(error), match=error.message):
        client.call(LIST_POOLS, LIST_POOLS.asks())
    client.close()
    assert _Answers.asked == 1
