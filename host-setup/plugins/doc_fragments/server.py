"""The options of the modules that work over the API, as each documents them."""

from __future__ import annotations


class ModuleDocFragment:
    """``extends_documentation_fragment: vgpumgr.host.server``."""

    DOCUMENTATION = r"""
options:
  name:
    description: The name of the object.
    type: str
    required: true
  spec:
    description:
      - The keys of the document, without C(apiVersion), C(kind) and C(name).
      - They are checked by the server, and not by the module.
    type: dict
  server:
    description:
      - Where C(vgpumgr api) listens, C(https://HOST:PORT) or C(unix:PATH), as the host that runs
        the task reaches it.
      - Without it, E(VGPUMGR_SERVER) of that host's environment is used.
    type: str
    required: true
  ca:
    description:
      - The file of the certificates that sign the server's, on the host that runs the task.
        Without one, those of that machine.
      - Without it, E(VGPUMGR_CA) is used.
    type: path
  token:
    description:
      - An API token. By a unix socket none is needed; the server knows the account.
      - Without it, E(VGPUMGR_TOKEN) is used.
    type: str
  timeout:
    description: How long a task waits, in seconds. What it began goes on after that.
    type: int
    default: 900
  idempotency_key:
    description:
      - A request that comes again under its key is carried out once, within 24 hours.
      - Without it, each run of a task has a key of its own, which its retries keep until it is
        known what came of the request.
    type: str
"""
