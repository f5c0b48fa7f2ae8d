// The official TypeScript clients, over either transport: 2.x in each of its modes, and 1.x.
//
// All of them declare the same capabilities and answer what a server asks of them in the same way, so that one set of checks
// fits all. What they were told is kept in `client.heard`.
import { createRequire } from 'node:module';
import path from 'node:path';

const me = { name: 'mpnanny-client-test', version: '1' };
const kCapabilities = { capabilities: { elicitation: {}, sampling: {}, roots: {} } };

// What a user types into any form: fields of these names, an Ada for every other text.
const kTyped = { username: 'ada', email: 'ada@example.org', name: 'Ada', color: 'blue', context: 'tests', ok: true };

const answers = {
  'elicitation/create': request => {
    const fields = Object.keys(request.params.requestedSchema.properties);
    return { action: 'accept', content: Object.fromEntries(fields.map(field => [field, kTyped[field] ?? 'Ada'])) };
  },
  'sampling/createMessage': request => ({
    role: 'assistant',
    model: 'test',
    content: { type: 'text', text: `heard: ${request.params.messages[0].content.text}` },
  }),
  'roots/list': () => ({ roots: [{ uri: 'file:///project', name: 'project' }] }),
};
const notices = ['notifications/message', 'notifications/resources/updated', 'notifications/tools/list_changed'];

async function version2(require, server, mode) {
  const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const client = new Client(me, { ...kCapabilities, versionNegotiation: { mode } });
  client.heard = [];
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
  for (const method of notices) client.setNotificationHandler(method, note => void client.heard.push(note));
  await client.connect(
    server.url ? new StreamableHTTPClientTransport(new URL(server.url)) : new StdioClientTransport(server));
  return client;
}

async function version1(require, server) {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
  const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const types = require('@modelcontextprotocol/sdk/types.js');
  const client = new Client(me, kCapabilities);
  client.isVersion1 = true;
  client.heard = [];
  client.setRequestHandler(types.ElicitRequestSchema, answers['elicitation/create']);
  client.setRequestHandler(types.CreateMessageRequestSchema, answers['sampling/createMessage']);
  client.setRequestHandler(types.ListRootsRequestSchema, answers['roots/list']);
  for (const schema of [types.LoggingMessageNotificationSchema, types.ResourceUpdatedNotificationSchema,
                        types.ToolListChangedNotificationSchema]) {
    client.setNotificationHandler(schema, note => void client.heard.push(note));
  }
  await client.connect(
    server.url ? new StreamableHTTPClientTransport(new URL(server.url)) : new StdioClientTransport(server));
  return client;
}

// `modules`: the folder that holds node_modules. `connect` takes {url} or {command, args}.
export function officialClients(modules) {
  const require = createRequire(path.join(path.resolve(modules), 'package.json'));
  return [
    { name: 'client 2.x legacy', era: 'legacy', connect: server => version2(require, server, 'legacy') },
    { name: 'client 2.x pinned', era: 'modern', connect: server => version2(require, server, { pin: '2026-07-28' }) },
    { name: 'client 2.x auto', era: 'modern', connect: server => version2(require, server, 'auto') },
    { name: 'sdk 1.x', era: 'legacy', connect: server => version1(require, server) },
  ];
}

// The arguments that callTool takes after its parameters: version 1 wants a result schema before the options.
export const withOptions = (client, options) => (client.isVersion1 ? [undefined, options] : [options]);

export const textOf = result => result.content.map(block => block.text ?? '').join('\n');
