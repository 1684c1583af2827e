"""Secrets of tokens: how they look, and what is kept of them."""

from __future__ import annotations

import secrets

import pytest

from vgpumgr.access.token_secret import looks_like_token, secret_digest, token_text


def test_a_token_has_256_bits_and_is_known_by_its_beginning() -> None:
    texts = {token_text(secrets.token_bytes(32)) for _ in range(200)}
    assert len(texts) == 200
    assert all(looks_like_token(each) and each.startswith("vgm_") for each in texts)
    with pytest.raises(ValueError, match="32"):
        token_text(b"short")


def test_what_is_kept_says_nothing_of_the_secret() -> None:
    text = token_text(bytes(range(32)))
    assert secret_digest(text) == secret_digest(text)
    assert len(secret_digest(text)) == 64
    assert text[4:] not in secret_digest(text)


@pytest.mark.parametrize("text", ["", "vgm_", "vgm_x", "vgm_" + "a" * 44, "abc_" + "a" * 43])
def test_what_can_be_no_token(text: str) -> None:
    assert not looks_like_token(text)
