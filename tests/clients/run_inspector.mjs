// Drives the built server with the Inspector's command line, one process a request, over stdio and over HTTP, in both eras.
//
// Usage: node run_inspector.mjs MPNANNY FOLDER_WITH_NODE_MODULES
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { here } from './checks.mjs';
import { startHttpServer, stopHttpServer } from './http_server.mjs';

const [product, modules] = process.argv.slice(2);
const command = path.resolve(product);
const args = ['serve', '--root', here];
const launcher = path.resolve(modules, 'node_modules/.bin/mcp-inspector');
const home = mkdtempSync(path.join(tmpdir(), 'mpnanny-inspector-'));  // its settings are not the user's
const uri = 'mpnanny://knowledge/clip-before-unscale';

// What is asked, and what its answer must be. --strict fails on schemas that some client would not take.
const requests = {
  'tools/list': [['--strict'], answer => assert.ok(answer.tools.some(tool => tool.name === 'static_check'))],
  'tools/call': [
    ['--tool-name', 'search_knowledge', '--tool-arg', 'query=clip before unscale'],
    answer => assert.ok(answer.structuredContent.results.some(result => result.uri === uri), answer),
  ],
  'resources/list': [[], answer => assert.ok(answer.resources.some(resource => resource.uri === 'mpnanny://knowledge/index'))],
  'resources/read': [['--uri', uri], answer => assert.match(answer.contents[0].text, /## Fix/)],
  'prompts/get': [
    ['--prompt-name', 'review_model_code', '--prompt-args', `path=${path.join(here, 'training_script.py')}`],
    answer => assert.match(answer.messages[0].content.text, /training_script\.py/),
  ],
};

function inspect(target, era, method, options) {
  const all = [launcher, '--cli', ...target, '--protocol-era', era, '--quiet', '--method', method, ...options];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, all, { timeout: 60_000, maxBuffer: 1 << 26, env: { ...process.env, HOME: home } },
             (error, stdout, stderr) => {
      if (error) return void reject(new Error(`exit ${error.code ?? error.signal}: ${stderr.slice(0, 2000)}`));
      resolve(JSON.parse(stdout));
    });
  });
}

let passed = 0;
let failed = 0;
async function check(where, target, era) {
  for (const [method, [options, expect]] of Object.entries(requests)) {
    try {
      expect(await inspect(target, era, method, options));
      ++passed;
    } catch (error) {
      ++failed;
      console.log(`FAILED inspector over ${where}, ${era}: ${method}\n${error.stack ?? error}`);
    }
  }
}

const server = await startHttpServer(command, [...args, '--http', '127.0.0.1:0']);
await Promise.all(['legacy', 'modern'].map(async era => {
  await check('stdio', [command, ...args], era);
  await check('HTTP', ['--server-url', server.url, '--transport', 'http'], era);
}));
await stopHttpServer(server);
rmSync(home, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
