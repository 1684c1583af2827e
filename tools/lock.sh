#!/bin/sh
# Rewrites requirements.lock from pyproject.toml: one lock for Python 3.11 to 3.13, with hashes, without registry addresses.
set -eu
cd "$(dirname "$0")/.."
exec uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements.lock "$@"
