#!/usr/bin/env bash
# Drives a built mpnanny with the official TypeScript clients. Usage: run_node.sh PROGRAM
#
# What it needs lands in .deps/node, by npm and pip as the user has configured them: exact versions of the clients, and a
# Node of its own where the system's is older than 22.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
. tests/clients/node_setup.sh
exec "$NODE" tests/clients/run_node.mjs "$program" .deps/node
