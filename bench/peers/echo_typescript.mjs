// A one-tool server with the official TypeScript SDK, for bench/. Usage: node echo_typescript.mjs FOLDER_WITH_NODE_MODULES [--http]
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(path.resolve(process.argv[2]), 'package.json'));
const { McpServer, createMcpHandler } = require('@modelcontextprotocol/server');
const { z } = require('zod');

function makeServer() {
  const server = new McpServer({ name: 'echo', version: '1' });
  server.registerTool(
    'echo',
    { description: 'Returns its text.', inputSchema: z.object({ text: z.string() }) },
    async ({ text }) => ({ content: [{ type: 'text', text }] }),
  );
  return server;
}

if (process.argv[3] === '--http') {
  const { createServer } = require('node:http');
  const { toNodeHandler } = require('@modelcontextprotocol/node');
  const server = createServer(toNodeHandler(createMcpHandler(makeServer)));
  server.listen(0, '127.0.0.1', () => console.error(`listening on http://127.0.0.1:${server.address().port}/mcp`));
} else {
  const { StdioServerTransport } = require('@modelcontextprotocol/server/stdio');
  await makeServer().connect(new StdioServerTransport());
}
