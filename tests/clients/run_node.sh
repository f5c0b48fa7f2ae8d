#!/usr/bin/env bash
# Drives the built programs with the official TypeScript clients and the Inspector's command line.
# Usage: run_node.sh MPNANNY MPNANNY_CONFORMANCE
#
# What it needs lands in .deps/node, by npm and pip as the user has configured them: exact versions of the clients, and a
# Node of its own where the system's is older than 22.
set -euo pipefail
product=$(realpath "$1")
fixtures=$(realpath "$2")
cd "$(dirname "$0")/../.."
. tests/clients/node_setup.sh
npm_packages .deps/node/inspector @modelcontextprotocol/inspector@2.12.0
rc=0
"$NODE" tests/clients/run_node.mjs "$product" "$fixtures" .deps/node || rc=1
"$NODE" tests/clients/run_inspector.mjs "$product" .deps/node/inspector || rc=1
exit "$rc"
