#!/usr/bin/env bash
# The official conformance suite against mpnanny-conformance, both requirement sets twice in one process.
# Usage: run_suite.sh PROGRAM
#
# What it needs lands in .deps/node, by npm and pip as the user has configured them.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
. tests/clients/node_setup.sh
suite=.deps/node/conformance
npm_packages "$suite" @modelcontextprotocol/conformance@0.2.0-alpha.12
exec "$NODE" tests/conformance/run_suite.mjs "$program" "$suite/node_modules/@modelcontextprotocol/conformance"
