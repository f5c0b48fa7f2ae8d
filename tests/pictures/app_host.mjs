// An MCP App host in a web page, made of the official client and the Apps SDK's bridge: connects to `mpnanny serve --http`, calls a tool,
// and shows the tool's view in a sandboxed frame as the specification says. Bundled for the browser by run_app.mjs.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

const MIME = 'text/html;profile=mcp-app';

globalThis.showTool = async ({ url, name, args, resources = true, theme = 'light', locale = 'en-US' }) => {
  const client = new Client({ name: 'app-host', version: '1.0.0' },
    { capabilities: { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [MIME] } } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const tool = (await client.listTools()).tools.find(each => each.name === name);
  const uri = tool._meta.ui.resourceUri;
  const { contents: [view] } = await client.readResource({ uri });
  if (view.mimeType !== MIME) throw new Error(`${uri} is ${view.mimeType}`);
  const frame = document.createElement('iframe');
  frame.sandbox = 'allow-scripts';
  frame.style.width = '100%';
  frame.title = name;
  document.body.replaceChildren(frame);
  const bridge = new AppBridge(client, { name: 'app-host', version: '1.0.0' },
    { serverTools: {}, logging: {}, ...(resources ? { serverResources: {} } : {}) },
    { hostContext: { theme, locale, displayMode: 'inline', toolInfo: { tool } } });
  bridge.addEventListener('sizechange', ({ height }) => { if (height) frame.style.height = `${height}px`; });
  const ready = new Promise(resolve => bridge.addEventListener('initialized', resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = view.text;
  await ready;
  await bridge.sendToolInput({ arguments: args });
  const result = await client.callTool({ name, arguments: args });
  await bridge.sendToolResult(result);
  globalThis.bridge = bridge;
  return { uri, images: result.content.filter(part => part.type === 'image').length };
};
