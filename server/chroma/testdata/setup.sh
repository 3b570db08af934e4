#!/bin/sh
# Installs the npm client of Chroma for TestChromaClient. Needs node and npm; where they are missing and Debian packages may be
# installed, they are.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends nodejs npm) >/dev/null
fi
# Without the native server of Chroma, which the client carries as an optional package. No lock file: it would record download
# addresses. package.json names the exact version.
npm install --omit=optional --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
