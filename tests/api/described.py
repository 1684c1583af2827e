"""Every operation of the API against its description: schemathesis with requests of all kinds.

``python -m tests.api.described [--examples 30] [--seed 1]``: a simulated fleet with VMs, the API
with TLS, an administrator's token. Exits 1 where an answer is not as described.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.apiserver import serving_api
from tests.certificates import Authority
from tests.e2e.support import host, new_cli, vm

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = [200, 202, 400, 401, 403, 404, 409, 412, 413, 422, 428, 502, 503, 504]
"""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given, more = parser.parse_known_args()
    with new_cli() as cli, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        Authority(home / "ca").issue("IP:127.0.0.1", home)
        cli.sim_up(host("h1", ("T4", 2)), host("h2", ("A40", 1)))
        cli.ok("apply", "-f", cli.documents(vm("desk-a", "T4-4Q"), vm("desk-b", "T4-4Q")))
        made = cli.ok("token", "create", "all", "--role", "admin", "-o", "json").json
        tls = ("--certificate", home / "server-cert.pem", "--key", home / "server-key.pem")
        with serving_api(cli, tls=tuple(map(str, tls))) as server:
            (home / "schemathesis.toml").write_text(CONFIG)
            argv = [
                str(Path(sys.executable).with_name("schemathesis")),
                *("--config-file", str(home / "schemathesis.toml"), "run"),
                f"{server.url}/v1/openapi.json",
                *("--tls-verify", str(home / "ca-cert.pem"), "--seed", str(given.seed)),
                *("--header", f"Authorization: Bearer {made['secret']}"),
                *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"),
                *("--max-examples", str(given.examples), "--continue-on-failure"),
                *("--request-retries", "2", "--warnings", "off"),
                *("--exclude-path", "/v1/events"),
                # An address that was drawn may be a machine's.
                *("--exclude-operation-id", "host.add", "--exclude-operation-id", "host.set-fence"),
                *("--exclude-operation-id", "host.trust", "--exclude-operation-id", "token.revoke"),
                *more,
            ]
            return subprocess.run(argv, check=False, cwd=home, env=os.environ).returncode


if __name__ == "__main__":
    sys.exit(main())
