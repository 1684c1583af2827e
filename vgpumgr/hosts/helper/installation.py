"""The helper as it lies on a host that is reached over a runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vgpumgr.hosts.helper import install
from vgpumgr.hosts.runner import Runner
from vgpumgr.model.host import Installed
from vgpumgr.model.ports import Helper


@dataclass(frozen=True, slots=True)
class RunnerInstallation:
    """Fulfils ``ports.Installation``; ``user`` says as whom programs run there."""

    host: str
    runner: Runner
    user: Callable[[], str]
    helper: Helper

    def look(self) -> Installed:
        """What is there."""
        return install.look(self.host, self.runner)

    def install(self) -> None:
        """Install it with its sudo rule, and see that the new one answers."""
        install.install(self.host, self.runner, self.user(), self.helper)

    def remove(self) -> None:
        """Take both away."""
        install.remove(self.host, self.runner, self.user())
