"""Settings of logins at a directory, ``auth.ldap``; UsageError names the source of a bad one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vgpumgr.app.setting_values import SettingText, flag, words

_KEY = "auth_ldap_"
_NEEDED = ("bind_dn", "bind_password_file", "user_base")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


def directory_values(settings: Mapping[str, SettingText]) -> dict[str, Any]:
    """What is set, as ``Config`` has it; nothing without an URL."""
    found = {
        key.removeprefix(_KEY): setting
        for key, setting in settings.items()
        if key.startswith(_KEY) and setting.text
    }
    url = found.get("url")
    if url is None:
        return {}
    for name in _NEEDED:
        if name not in found:
            url.refuse(f"{_KEY}url", f"needs {_KEY}{name}", next=f"{_KEY}{name}: …")
    values: dict[str, Any] = {name: setting.text for name, setting in found.items()}
    values["url"] = _urls(url)
    for name in ("user_filter", "group_filter"):
        if name in found:
            _require_filter(found[name], name)
    for name in ("user_name", "group_name"):
        if name in found and not _ATTRIBUTE.fullmatch(found[name].text):
            found[name].refuse(_KEY + name, "is no attribute", next=f"{_KEY}{name}: cn")
    for name in ("bind_password_file", "ca"):
        if name in found:
            values[name] = Path(found[name].text)
    if "nested" in found:
        values["nested"] = flag(settings, f"{_KEY}nested")
    return {_KEY + name: value for name, value in values.items()}


def _urls(setting: SettingText) -> tuple[str, ...]:
    """Servers of one directory, all of them by TLS: ``ldap://`` is by StartTLS."""
    urls = words({"url": setting.text}, "url", ())
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in {"ldaps", "ldap"} or not parts.hostname or parts.path.strip("/"):
            setting.refuse(
                f"{_KEY}url", "is not the address of a directory", next="ldaps://HOST[:PORT]"
            )
    return urls


def _require_filter(setting: SettingText, name: str) -> None:
    places = ("{user}",) if name == "user_filter" else ("{dn}", "{user}")
    text = setting.text
    if not any(place in text for place in places) or text[0] != "(" or text[-1] != ")":
        setting.refuse(
            _KEY + name,
            f"is no filter with {' or '.join(places)} in it",
            next=f"{_KEY}{name}: ({'uid={user}' if name == 'user_filter' else 'member={dn}'})",
        )
