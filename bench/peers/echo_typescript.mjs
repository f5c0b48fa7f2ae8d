// A one-tool server with the official TypeScript SDK, for bench/stdio.py. Usage: node echo_typescript.mjs FOLDER_WITH_NODE_MODULES
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(path.resolve(process.argv[2]), 'package.json'));
const { McpServer } = require('@modelcontextprotocol/server');
const { StdioServerTransport } = require('@modelcontextprotocol/server/stdio');
const { z } = require('zod');

const server = new McpServer({ name: 'echo', version: '1' });
server.registerTool(
  'echo',
  { description: 'Returns its text.', inputSchema: z.object({ text: z.string() }) },
  async ({ text }) => ({ content: [{ type: 'text', text }] }),
);
await server.connect(new StdioServerTransport());
