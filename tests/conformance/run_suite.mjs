// Runs the official suite's requirement sets against one process of mpnanny-conformance, each twice, and counts every
// required scenario of every run as a test: it passes with at least one success, no failure and no warning.
//
// Usage: node run_suite.mjs PROGRAM FOLDER_OF_THE_SUITE
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startHttpServer, stopHttpServer } from '../clients/http_server.mjs';

const [program, suite] = process.argv.slice(2);
const kRuns = 2;
// How many scenarios each set requires. The suite says which; a number that differs would mean that this script no longer
// reads it right.
const kRequired = { '2025-11-25': 30, '2026-07-28': 37 };

let passed = 0;
let failed = 0;
function report(name, errors) {
  if (errors.length === 0) return void ++passed;
  ++failed;
  console.log(`FAILED ${name}`);
  for (const error of errors) console.log(`  ${error}`);
}

// The scenarios below the key `server:` of the revision's list.
function requiredScenarios(revision) {
  const lines = readFileSync(path.join(suite, 'requirements', `${revision}.yaml`), 'utf8').split('\n');
  const names = [];
  for (let i = lines.indexOf('server:') + 1; i < lines.length && !/^\S/.test(lines[i]); ++i) {
    const name = /^ +- (\S+)$/.exec(lines[i])?.[1];
    if (name) names.push(name);
  }
  return names;
}

// The checks of every scenario that ran, by the scenario's name.
function runSet(revision, url) {
  const output = mkdtempSync(path.join(tmpdir(), 'mpnanny-suite-'));
  const args = [path.join(suite, 'dist/index.js'), 'server', '--url', url, '--requirements', revision, '-o', output];
  return new Promise(resolve => {
    execFile(process.execPath, args, { maxBuffer: 1 << 28, timeout: 240_000 }, (error, stdout) => {
      const checks = new Map();
      for (const folder of readdirSync(output)) {
        const name = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(folder)?.[1];
        try {
          checks.set(name, JSON.parse(readFileSync(path.join(output, folder, 'checks.json'), 'utf8')));
        } catch {
          // The scenario threw: it has no checks, and so does not pass.
        }
      }
      rmSync(output, { recursive: true });
      resolve({ checks, code: error ? (error.code ?? error.signal) : 0, end: stdout.slice(-2000) });
    });
  });
}

function wrongs(checks) {
  if (!checks) return ['it was not run, or broke off'];
  const bad = checks.filter(check => check.status === 'FAILURE' || check.status === 'WARNING');
  if (bad.length === 0 && !checks.some(check => check.status === 'SUCCESS')) return ['nothing was checked'];
  return bad.map(check => `${check.status} ${check.id}: ${check.errorMessage ?? check.description}`);
}

// A plain request of either era, without any client library.
async function post(url, headers, message) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'still-there', ...message }),
  });
  const text = await response.text();
  return `${response.status} ${text}`;
}

async function stillAnswers(server) {
  const errors = [];
  if (server.child.exitCode !== null || server.child.signalCode !== null) return ['the process is gone'];
  const modern = await post(
    server.url,
    { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'test_simple_text' },
    {
      method: 'tools/call',
      params: {
        name: 'test_simple_text',
        arguments: {},
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    });
  if (!/^200 .*simple text response/s.test(modern)) errors.push(`tools/call of 2026-07-28: ${modern}`);
  const legacy = await post(server.url, {}, {
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
  });
  if (!/^200 .*"protocolVersion":"2025-11-25"/s.test(legacy)) errors.push(`initialize of 2025-11-25: ${legacy}`);
  return errors;
}

const server = await startHttpServer(program, ['--http', '127.0.0.1:0']);
const url = server.url.replace('127.0.0.1', 'localhost');  // as the suite's checks of Host want it
for (let run = 1; run <= kRuns; ++run) {
  for (const [revision, count] of Object.entries(kRequired)) {
    const start = Date.now();
    const required = requiredScenarios(revision);
    if (required.length !== count) report(`${revision}: it requires ${required.length} scenarios, not ${count}`, ['']);
    const { checks, code, end } = await runSet(revision, url);
    const before = passed;
    for (const name of required) report(`${revision}, run ${run}: ${name}`, wrongs(checks.get(name)));
    const ok = passed - before;
    // The suite's own verdict, besides ours.
    if (code !== 0 && ok === required.length) report(`${revision}, run ${run}: the suite ends with ${code}`, [end]);
    console.log(`${revision}, run ${run}: ${ok} of ${required.length} required scenarios, ` +
                `${((Date.now() - start) / 1000).toFixed(1)} s`);
    if (run > 1) continue;
    // What is run and not required: pending, added since, or of extensions that this server does not offer.
    const others = [...checks.keys()].filter(name => !required.includes(name)).sort();
    const good = others.filter(name => wrongs(checks.get(name)).length === 0);
    console.log(`  not required, good: ${good.join(', ')}`);
    console.log(`  not required, with remarks: ${others.filter(name => !good.includes(name)).join(', ') || 'none'}`);
  }
}
report('the process still answers', await stillAnswers(server));
const code = await stopHttpServer(server);
report('the process ends when it is told to', code === 0 ? [] : [`exit code ${code}`]);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
