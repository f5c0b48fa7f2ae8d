// Drives the built server over stdio with the official TypeScript clients: 2.x in each of its modes, and 1.x.
//
// Usage: node run_node.mjs PROGRAM FOLDER_WITH_NODE_MODULES
import { createRequire } from 'node:module';
import path from 'node:path';
import { checks, here } from './checks.mjs';

const [program, modules] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'package.json'));
const server = { command: path.resolve(program), args: ['serve', '--root', here] };
const me = { name: 'mpnanny-client-test', version: '1' };

async function version2(mode) {
  const { Client } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const client = new Client(me, { versionNegotiation: { mode } });
  await client.connect(new StdioClientTransport(server));
  return client;
}

async function version1() {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
  const client = new Client(me);
  client.isVersion1 = true;
  await client.connect(new StdioClientTransport(server));
  return client;
}

const clients = [
  ['client 2.x legacy', 'legacy', () => version2('legacy')],
  ['client 2.x pinned', 'modern', () => version2({ pin: '2026-07-28' })],
  ['client 2.x auto', 'modern', () => version2('auto')],
  ['sdk 1.x', 'legacy', version1],
];

let passed = 0;
let failed = 0;
const report = (name, error) => {
  if (!error) return void ++passed;
  ++failed;
  console.log(`FAILED ${name}\n${error.stack ?? error}`);
};

for (const [name, era, connect] of clients) {
  let client;
  try {
    client = await connect();
    const got = client.getProtocolEra?.() ?? 'legacy';
    report(`${name}: era`, got === era ? null : new Error(`the era is ${got}`));
  } catch (error) {
    report(`${name}: connect`, error);
    continue;
  }
  for (const [title, check] of Object.entries(checks)) {
    await check(client).then(() => report(`${name}: ${title}`), error => report(`${name}: ${title}`, error));
  }
  await client.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
