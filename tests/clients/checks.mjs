// What every TypeScript client has to see, whatever its version and mode. `client` is an official one; it validates
// structured results against the tools' output schemas by itself.
import assert from 'node:assert/strict';
import path from 'node:path';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { textOf, withOptions } from './official.mjs';

export const here = path.dirname(fileURLToPath(import.meta.url));
const script = path.join(here, 'training_script.py');
const tools = ['static_check', 'search_knowledge', 'list_runs', 'run_summary', 'query_alerts', 'diagnose_run'];

async function code(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  return 'no error';
}

export const checks = {
  async 'the server says who it is'(client) {
    assert.equal(client.getServerVersion().name, 'mpnanny');
    assert.ok(client.getInstructions().length <= 2048);
    assert.ok(client.getServerCapabilities().completions);
  },

  async 'tools are listed with schemas and read-only'(client) {
    const listed = (await client.listTools()).tools;
    const names = listed.map(tool => tool.name);
    for (const name of tools) assert.ok(names.includes(name), `${name} is not in ${names}`);
    for (const tool of listed) {
      assert.equal(tool.outputSchema.type, 'object');
      assert.equal(tool.annotations.readOnlyHint, true);
    }
  },

  async 'static_check finds the clip before unscale'(client) {
    for (const given of [{ paths: [script] }, { code: readFileSync(script, 'utf8') }]) {
      const result = await client.callTool({ name: 'static_check', arguments: given });
      assert.ok(!result.isError, textOf(result));
      const finding = result.structuredContent.findings.find(f => f.rule === 'clip-before-unscale');
      assert.ok(finding, textOf(result));
      assert.match(readFileSync(script, 'utf8').split('\n')[finding.line - 1], /clip_grad_norm_/);
    }
  },

  async 'search_knowledge answers in English and Chinese'(client) {
    for (const query of ['loss becomes nan after a few steps', '梯度 溢出']) {
      const result = await client.callTool({ name: 'search_knowledge', arguments: { query } });
      assert.ok(result.structuredContent.results.length > 0, textOf(result));
    }
  },

  async 'list_runs of a folder without runs says so'(client) {
    const result = await client.callTool({ name: 'list_runs', arguments: { path: here } });
    assert.deepEqual(result.structuredContent.runs, []);
    assert.equal(result.structuredContent.total, 0);
  },

  async 'a case is read as a resource'(client) {
    const found = await client.callTool({ name: 'search_knowledge', arguments: { query: 'clip before unscale' } });
    const uri = found.structuredContent.results[0].uri;
    const { contents } = await client.readResource({ uri });
    assert.match(contents[0].text, /## Fix/);
    // Few are listed: the page that names all cases stands for them.
    const listed = (await client.listResources()).resources.map(resource => resource.uri);
    const index = 'mpnanny://knowledge/index';
    assert.ok(listed.includes(index) && listed.length < 30, listed);
    const named = (await client.readResource({ uri: index })).contents[0].text;
    assert.ok(named.includes(`\`${uri.split('/').pop()}\``), `${uri} is not named`);
    const templates = (await client.listResourceTemplates()).resourceTemplates.map(t => t.uriTemplate);
    assert.ok(templates.includes('mpnanny://knowledge/{case}'), templates);
  },

  async 'a prompt is filled in'(client) {
    const names = (await client.listPrompts()).prompts.map(prompt => prompt.name);
    assert.ok(names.includes('review_model_code') && names.includes('explain_nan'), names);
    const prompt = await client.getPrompt({ name: 'review_model_code', arguments: { path: script } });
    assert.match(prompt.messages[0].content.text, /training_script\.py/);
  },

  async 'arguments are completed'(client) {
    const cases = await client.complete({
      ref: { type: 'ref/resource', uri: 'mpnanny://knowledge/{case}' },
      argument: { name: 'case', value: 'clip' },
    });
    assert.ok(cases.completion.values.length > 0 && cases.completion.values.every(v => v.startsWith('clip')));
    const paths = await client.complete({
      ref: { type: 'ref/prompt', name: 'review_model_code' },
      argument: { name: 'path', value: script.slice(0, -3) },
    });
    assert.ok(paths.completion.values.includes(script), paths.completion.values);
  },

  async 'a wrong argument is an error the model can mend'(client) {
    const result = await client.callTool({ name: 'search_knowledge', arguments: { quer: 'nan' } });
    assert.ok(result.isError);
    assert.match(textOf(result), /query/);
  },

  async 'a path outside the roots is refused'(client) {
    const result = await client.callTool({ name: 'static_check', arguments: { paths: ['/etc/hostname'] } });
    assert.ok(result.isError);
    assert.match(textOf(result), /roots?/);
  },

  async 'what does not exist is a protocol error'(client) {
    assert.equal(await code(client.callTool({ name: 'no_such_tool', arguments: {} })), -32602);
    assert.equal(await code(client.getPrompt({ name: 'no_such_prompt' })), -32602);
    const missing = await code(client.readResource({ uri: 'mpnanny://knowledge/no-such-case' }));
    // A legacy server says -32002; version 2 of the client tells its user -32602 for both.
    assert.equal(missing, client.isVersion1 ? -32002 : -32602);
  },

  async 'a call that is taken back leaves the connection whole'(client) {
    const controller = new AbortController();
    const call = client.callTool({ name: 'search_knowledge', arguments: { query: 'nan' } },
                                 ...withOptions(client, { signal: controller.signal }));
    controller.abort('not needed');
    await call.catch(() => {});
    assert.ok((await client.callTool({ name: 'search_knowledge', arguments: { query: 'nan' } })).structuredContent);
  },

  async 'calls at the same time get their own answers'(client) {
    const calls = [];
    for (let i = 0; i < 20; ++i) {
      calls.push(client.callTool({ name: 'search_knowledge', arguments: { query: `loss nan ${i}` } }));
      calls.push(client.callTool({ name: 'list_runs', arguments: { path: here } }));
    }
    const results = await Promise.all(calls);
    results.forEach((result, i) => assert.ok(i % 2 ? result.structuredContent.runs : result.structuredContent.results));
  },
};
