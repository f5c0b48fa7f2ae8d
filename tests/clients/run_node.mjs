// Drives the built programs with the official TypeScript clients, over stdio and over HTTP.
//
// Usage: node run_node.mjs MPNANNY MPNANNY_CONFORMANCE FOLDER_WITH_NODE_MODULES
import path from 'node:path';
import { checks, here } from './checks.mjs';
import { fixtureChecks } from './fixture_checks.mjs';
import { startHttpServer, stopHttpServer } from './http_server.mjs';
import { officialClients } from './official.mjs';

const [product, fixtures, modules] = process.argv.slice(2);
const programs = [
  { name: 'mpnanny', command: path.resolve(product), args: ['serve', '--root', here], checks },
  { name: 'fixtures', command: path.resolve(fixtures), args: [], checks: fixtureChecks },
];
const kSlow = 60_000;  // a check that takes so long hangs

let passed = 0;
let failed = 0;
const report = (name, error) => {
  if (!error) return void ++passed;
  ++failed;
  console.log(`FAILED ${name}\n${error.stack ?? error}`);
};

function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${kSlow / 1000} s`)), kSlow);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function run(program, transport, server) {
  for (const { name, era, connect } of officialClients(modules)) {
    const where = `${program.name} over ${transport}, ${name}`;
    let client;
    try {
      client = await inTime(connect(server));
      const got = client.getProtocolEra?.() ?? 'legacy';
      report(`${where}: era`, got === era ? null : new Error(`the era is ${got}`));
    } catch (error) {
      report(`${where}: connect`, error);
      continue;
    }
    for (const [title, check] of Object.entries(program.checks)) {
      await inTime(check(client)).then(() => report(`${where}: ${title}`), error => report(`${where}: ${title}`, error));
    }
    await client.close();
  }
}

for (const program of programs) {
  const { command, args } = program;
  await run(program, 'stdio', { command, args });
  const server = await startHttpServer(command, [...args, '--http', '127.0.0.1:0']);
  await run(program, 'HTTP', { url: server.url });
  const code = await stopHttpServer(server);
  report(`${program.name} over HTTP ends when it is told to`, code === 0 ? null : new Error(`it ended with ${code}`));
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
