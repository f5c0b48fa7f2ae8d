// The view of a run in an MCP App host (app_host.mjs) in a real browser, and the picture for a client without views.
// Usage: run_app.mjs PROGRAM RUNS MODULES CHROMIUM [SCREENSHOTS]
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { startHttpServer, stopHttpServer } from '../clients/http_server.mjs';
import { accessibility, openBrowser, openPage, runChecks } from './browser.mjs';

const [program, runs, modules, chromium, screenshots] = process.argv.slice(2);
const require = createRequire(pathToFileURL(path.join(modules, 'package.json')));
const here = path.dirname(fileURLToPath(import.meta.url));
const { build } = require('esbuild');
const bundle = await build({
  entryPoints: [path.join(here, 'app_host.mjs')], bundle: true, write: false, format: 'iife', platform: 'browser',
  nodePaths: [path.resolve(modules, 'node_modules')], logLevel: 'error',
});
const script = bundle.outputFiles[0].text;
const web = createServer((request, response) => {
  response.setHeader('Content-Type', request.url === '/host.js' ? 'text/javascript' : 'text/html; charset=utf-8');
  response.end(request.url === '/host.js' ? script : '<!doctype html><html lang="en"><title>host</title><link rel="icon" href="data:,"><body><script src="/host.js"></script>');
});
await new Promise(resolve => web.listen(0, '127.0.0.1', resolve));
const origin = `http://127.0.0.1:${web.address().port}`;
const server = await startHttpServer(program, ['serve', '--http', '127.0.0.1:0', '--root', runs, '--allow-origin', origin]);
const context = await openBrowser(modules, chromium);
const broken = path.join(runs, 'broken.db');

async function show(call, wait) {
  const opened = await openPage(context, origin + '/');
  const start = performance.now();
  const told = await opened.page.evaluate(each => globalThis.showTool(each), { url: server.url, ...call });
  const frame = await (await opened.page.waitForSelector('iframe')).contentFrame();
  await frame.waitForSelector(wait, { timeout: 20_000 });
  const ms = Math.round(performance.now() - start);
  await opened.page.evaluate(() => new Promise(done => setTimeout(done, 200)));
  assert.deepEqual(opened.seen.complaints, []);
  assert.deepEqual(await accessibility(context, frame), []);
  if (screenshots) await opened.page.screenshot({ path: path.join(screenshots, `app_${call.name}${call.locale ? '_' + call.locale : ''}.png`) });
  return { ...opened, frame, told, ms };
}
const visible = frame => frame.$$eval('main section', each => each.filter(one => !one.hidden).map(one => one.querySelector('h2').dataset.word));

const checks = {
  async 'diagnose_run: the diagnosis, the curves, the layers'() {
    const { page, frame, told, ms } = await show({ name: 'diagnose_run', args: { run: broken } }, 'td.first-bad');
    assert.equal(told.uri, 'ui://mpnanny/run');
    assert.equal(told.images, 0);
    assert.deepEqual(await visible(frame), ['diagnosis', 'curves', 'heat']);
    const height = await page.$eval('iframe', each => each.clientHeight);
    assert.ok(height > 600, `the frame is ${height} pixels high`);
    await frame.$eval('#settings > button', each => each.click());
    assert.deepEqual(await visible(frame), ['diagnosis', 'curves', 'heat', 'histogram', 'alerts']);
    await page.evaluate(() => globalThis.bridge.teardownResource({}));
    await page.close();
    console.log(`     shown ${ms} ms after the call`);
  },
  async 'run_summary, dark and Chinese'() {
    const { page, frame } = await show({ name: 'run_summary', args: { run: broken }, theme: 'dark', locale: 'zh-CN' }, '#curves canvas');
    assert.equal(await frame.evaluate(() => document.documentElement.dataset.theme), 'dark');
    assert.match(await frame.$eval('#curves-title', each => each.innerText), /曲线/);
    await page.close();
  },
  async 'query_stats: its own series'() {
    const { page, frame } = await show({ name: 'query_stats', args: { run: broken, metric: 'absmax', layers: ['blocks.*.ffn.wo'] } }, '#asked canvas');
    assert.deepEqual(await visible(frame), ['asked']);
    assert.match(await frame.$eval('#asked canvas', each => each.getAttribute('aria-label')), /ffn\.wo/);
    await page.close();
  },
  async 'compare_runs: two runs'() {
    const { page, frame } = await show({ name: 'compare_runs', args: { a: broken, b: path.join(runs, 'bf16.db') } }, '#curves canvas');
    assert.equal(await frame.evaluate(() => data.runs.length), 2);
    await page.close();
  },
  async 'a host that passes no resources on still shows the words'() {
    const { page, frame } = await show({ name: 'diagnose_run', args: { run: broken }, resources: false }, '#note:not([hidden])');
    await frame.waitForFunction(() => /passes no data/.test(document.getElementById('note').textContent));
    assert.match(await frame.$eval('#diagnosis', each => each.innerText), /ffn\.wo/);
    await page.close();
  },
  async 'hostile names stay text in the view'() {
    const { page, frame } = await show({ name: 'diagnose_run', args: { run: path.join(runs, 'hostile.db') } }, '#curves canvas');
    assert.equal(await frame.evaluate(() => globalThis.hacked), undefined);
    assert.match(await frame.$eval('#name', each => each.innerText), /<script>/);
    await page.close();
  },
};

const failed = await runChecks(checks);
await context.browser.close();
web.close();
const ended = await stopHttpServer(server);
process.exit(failed || ended !== 0 ? 1 : 0);
