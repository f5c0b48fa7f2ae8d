#!/usr/bin/env bash
# Everything that is drawn, over real runs: PNGs and plots by pytest, the page and the MCP App in a real Chromium with axe-core.
# Usage: run_pictures.sh PROGRAM [SCREENSHOTS]
#
# Chromium comes by apt where it is missing and apt may be used; npm packages land in .deps/node/pictures, matplotlib in .venv.
set -euo pipefail
program=$(realpath "$1")
screenshots=${2:+$(realpath -m "$2")}
cd "$(dirname "$0")/../.."
python=$PWD/.venv/bin/python
"$python" -c 'import matplotlib' 2>/dev/null || "$python" -m pip install -q --disable-pip-version-check matplotlib
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
"$python" tests/pictures/make_runs.py "$runs" >"$runs/made.log" 2>&1 || { tail -20 "$runs/made.log"; echo "1 failed"; exit 1; }

rc=0
MPNANNY_RUNS=$runs "$python" -m pytest -q -p no:cacheprovider tests/pictures || rc=1

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  echo "==> apt: chromium (for the tests of the page only)" >&2
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >.deps/chromium.log 2>&1 || true
  chromium=$(command -v chromium || true)
fi
if [ -z "$chromium" ]; then
  echo "Chromium is missing: the page and the MCP App are left out (Debian: apt-get install chromium)"
  exit "$rc"
fi
. tests/clients/node_setup.sh
npm_packages .deps/node/pictures puppeteer-core@25.16.0 axe-core@4.14.1 esbuild@0.28.2 @modelcontextprotocol/ext-apps@2.0.4 \
  @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/core@2.4.0 zod@4.6.7
for part in run_browser run_app; do
  "$NODE" tests/pictures/$part.mjs "$program" "$runs" .deps/node/pictures "$chromium" ${screenshots:+"$screenshots"} || rc=1
done
exit "$rc"
