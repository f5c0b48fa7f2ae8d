// What happens between a server and its client during and between calls, seen through the official clients against
// mpnanny-conformance: what the server asks, what it reports, what it announces, what is taken back.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { textOf, withOptions } from './official.mjs';

const kWatched = 'test://watched-resource';
const kDeadline = 20_000;  // a hang fails; nothing here takes long

const isModern = client => client.getProtocolEra?.() === 'modern';

function call(client, name, given = {}, options = {}, meta = undefined) {
  const params = { name, arguments: given };
  if (meta) params._meta = meta;
  return client.callTool(params, ...withOptions(client, options));
}

async function until(condition, what) {
  const end = Date.now() + kDeadline;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `${what}: nothing after ${kDeadline / 1000} s`);
    await sleep(5);
  }
}

const heard = (client, method) => client.heard.filter(note => note.method === method);

export const fixtureChecks = {
  async 'the user fills in a form'(client) {
    const text = textOf(await call(client, 'test_elicitation', { message: 'Who are you?' }));
    assert.match(text, /action=accept/);
    assert.match(text, /"username":"ada","email":"ada@example.org"/);
  },

  async 'the model is asked'(client) {
    assert.match(textOf(await call(client, 'test_sampling', { prompt: 'Are you there?' })), /heard: Are you there\?/);
  },

  async 'the roots are asked for'(client) {
    assert.match(textOf(await call(client, 'test_list_roots')), /1 root\(s\): \["file:\/\/\/project"\]/);
  },

  async 'three things are asked for at once'(client) {
    const text = textOf(await call(client, 'test_input_required_result_multiple_inputs'));
    assert.equal(text, 'Name: Ada; greeting: heard: Write a greeting.; roots: 1');
  },

  async 'two questions follow each other'(client) {
    assert.equal(textOf(await call(client, 'test_input_required_result_multi_round')), 'Ada likes blue.');
  },

  async 'our own state comes back'(client) {
    assert.match(textOf(await call(client, 'test_input_required_result_request_state')), /state-ok/);
  },

  async 'a prompt asks the user'(client) {
    const prompt = await client.getPrompt({ name: 'test_input_required_result_prompt' });
    assert.equal(prompt.messages[0].content.text, 'Prompt with context: tests');
  },

  async 'progress arrives while the call runs'(client) {
    const seen = [];
    await call(client, 'test_tool_with_progress', {}, { onprogress: note => seen.push(note.progress) });
    assert.deepEqual(seen, [0, 50, 100]);
  },

  async 'log messages reach those who want them'(client) {
    const messages = () => heard(client, 'notifications/message').map(note => note.params.data);
    client.heard = [];
    if (isModern(client)) {
      await call(client, 'test_tool_with_logging');
      assert.deepEqual(messages(), [], 'a request without a level gets none');
      await call(client, 'test_tool_with_logging', {}, {}, { 'io.modelcontextprotocol/logLevel': 'info' });
    } else {
      await client.setLoggingLevel('error');
      await call(client, 'test_tool_with_logging');
      assert.deepEqual(messages(), [], 'they are not serious enough');
      await client.setLoggingLevel('info');
      await call(client, 'test_tool_with_logging');
    }
    assert.deepEqual(messages(), ['Tool execution started', 'Tool processing data', 'Tool execution completed']);
  },

  async 'listeners hear what they asked for, until they stop'(client) {
    client.heard = [];
    const updates = () => heard(client, 'notifications/resources/updated');
    let stop;
    if (isModern(client)) {
      const subscription = await client.listen({ resourceSubscriptions: [kWatched, 'test://no-such-resource'] });
      assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [kWatched]);
      stop = () => subscription.close();
    } else {
      await client.subscribeResource({ uri: kWatched });
      stop = () => client.unsubscribeResource({ uri: kWatched });
    }
    await call(client, 'test_trigger_resource_update');
    await until(() => updates().length > 0, 'resources/updated');
    assert.equal(updates()[0].params.uri, kWatched);
    if (isModern(client)) {
      await call(client, 'test_trigger_tool_change');
      await call(client, 'test_simple_text');
      assert.deepEqual(heard(client, 'notifications/tools/list_changed'), [], 'that was not asked for');
    }
    await stop();
    await call(client, 'test_trigger_resource_update');
    await call(client, 'test_tool_with_progress');  // takes a while, in which a stray notice would arrive
    assert.equal(updates().length, 1);
  },

  async 'a list that changed is announced'(client) {
    client.heard = [];
    const subscription = isModern(client) ? await client.listen({ toolsListChanged: true }) : null;
    await until(async () => {
      await call(client, 'test_trigger_tool_change');  // again: a legacy client's own stream may still be opening
      return heard(client, 'notifications/tools/list_changed').length > 0;
    }, 'tools/list_changed');
    await subscription?.close();
  },

  async 'a call that is taken back stops'(client) {
    const count = async () => Number(textOf(await call(client, 'test_count_cancelled')));
    const before = await count();
    const controller = new AbortController();
    const waiting = call(client, 'test_wait_until_cancelled', {}, {
      signal: controller.signal,
      onprogress: () => controller.abort('not needed'),
    });
    await assert.rejects(waiting);
    await until(async () => (await count()) === before + 1, 'the handler never heard of it');
  },
};
