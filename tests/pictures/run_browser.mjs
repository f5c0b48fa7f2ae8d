// The page of `mpnanny report` and of `mpnanny view` in a real browser, over real runs.
// Usage: run_browser.mjs PROGRAM RUNS MODULES CHROMIUM [SCREENSHOTS]
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { accessibility, openBrowser, openPage, runChecks } from './browser.mjs';

const [program, runs, modules, chromium, screenshots] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const python = path.join(here, '../../.venv/bin/python');
const context = await openBrowser(modules, chromium);
if (screenshots) mkdirSync(screenshots, { recursive: true });

function report(...names) {
  const file = path.join(runs, names.join('-and-') + '.html');
  execFileSync(program, ['report', ...names.map(name => path.join(runs, name)), '-o', file]);
  return file;
}
const open = (file, options) => openPage(context, pathToFileURL(file).href, options);
async function shot(page, name) { if (screenshots) await page.screenshot({ path: path.join(screenshots, name + '.png') }); }
const text = (page, selector) => page.$eval(selector, each => each.innerText);

// What holds of every page.
async function sound({ page, seen }) {
  assert.deepEqual(seen.complaints, []);
  assert.equal(seen.requests.length, 1, `it fetched ${seen.requests}`);
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined, 'a name ran as a script');
  assert.deepEqual(await accessibility(context, page), []);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wider <= 0, `the page is ${wider} pixels wider than the window`);
}

const children = [];
function start(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}
async function startView(name) {
  const child = start(program, ['view', path.join(runs, name)]);
  return { child, url: await new Promise(resolve => createInterface({ input: child.stdout }).once('line', resolve)) };
}

const checks = {
  async 'the broken run: diagnosis, marks, links, keys'() {
    const opened = await open(report('broken.db'));
    const { page } = opened;
    await sound(opened);
    await shot(page, 'broken');
    assert.match(await text(page, '#diagnosis'), /blocks\.\d\.ffn\.wo/);
    const charts = await page.$$eval('#curves canvas', each => each.map(canvas => canvas.getAttribute('aria-label')));
    assert.equal(charts.length, 4);
    // The diagnosis leads to the curves, and the curves back to it.
    const step = await page.$eval('#diagnosis button[data-step]', each => { each.click(); return each.dataset.step; });
    assert.match(await text(page, '#chosen'), new RegExp(`Step ${step} is chosen`));
    await page.$eval('#chosen button', each => each.click());
    assert.equal(await page.evaluate(() => document.activeElement.dataset.step), step);
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-current')), 'step');
    // The first bad cell: in the layer that the diagnosis names, reached and left by keys.
    const bad = await page.$('td.first-bad');
    const label = await bad.evaluate(each => each.getAttribute('aria-label'));
    assert.match(label, /ffn\.wo/);
    await bad.focus();
    await page.keyboard.press('Enter');
    assert.equal(await text(page, '#cell'), label);
    await page.keyboard.press('ArrowLeft');
    const left = await page.evaluate(() => document.activeElement.dataset.column);
    assert.equal(Number(left), Number(await bad.evaluate(each => each.dataset.column)) - 1);
    await page.keyboard.press('Home');
    assert.equal(await page.evaluate(() => document.activeElement.dataset.column), '0');
    // Every picture has a table behind it.
    for (const section of ['curves', 'histogram']) {
      const [canvases, tables] = await page.$eval('#' + section, each => [each.querySelectorAll('canvas').length, each.querySelectorAll('details table').length]);
      assert.ok(canvases > 0 && tables > 0, section);
    }
    await page.select('#heat select', '1');
    assert.ok(await page.$('#heat td'));
    await page.$eval('#heat', each => each.scrollIntoView());
    await shot(page, 'heat');
    for (const format of ['BF16', 'E4M3', 'E5M2']) {
      const selects = await page.$$('#histogram select');
      await selects.at(-1).select(format);
    }
    await page.$eval('#histogram', each => each.scrollIntoView());
    await shot(page, 'histogram');
    await sound(opened);
    await page.close();
  },
  async 'Chinese, dark, a phone, paper'() {
    const opened = await open(report('broken.db'), { width: 390, height: 844, scheme: 'dark' });
    const { page } = opened;
    await page.select('#settings select', 'zh');
    assert.match(await text(page, 'h2#diagnosis-title'), /问题出在哪里/);
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
    await sound(opened);
    await shot(page, 'phone');
    const pdf = await page.pdf({ format: 'A4' });
    if (screenshots) writeFileSync(path.join(screenshots, 'broken.pdf'), pdf);
    assert.ok(pdf.length > 20_000);
    await page.close();
  },
  async 'the diagnosis of a broken run in Chinese, and in English where a sentence has no Chinese one'() {
    const opened = await open(report('broken.db'));
    const { page } = opened;
    const told = () => page.$$eval('#diagnosis > p, #diagnosis .card h3, #diagnosis .card p, #diagnosis .card li', each => each.map(one => one.innerText));
    const english = await told();
    const given = await page.evaluate(() => data.runs[0].diagnosis);
    assert.ok(english.includes(given.headline), english[0]);
    await page.select('#settings select', 'zh');
    const chinese = await told();
    assert.ok(chinese.includes(given.zh.headline), chinese[0]);
    assert.equal(chinese.length, english.length);
    for (const [at, text] of chinese.entries()) {
      assert.match(text, /[\u4e00-\u9fff]/);
      // An alert's own words stand quoted in the evidence; names of layers and operators are no sentence.
      const quoted = given.zh.hypotheses.some(cause => cause.evidence.includes(text));
      if (!quoted) assert.doesNotMatch(text, /[A-Za-z]+(?: [a-z]{2,}){3}/, `${at}: ${text}`);
    }
    // A step of a Chinese sentence leads to the curves too.
    const linkedStep = await page.$eval('#diagnosis > p button[data-step]', each => { each.click(); return [each.innerText, each.dataset.step]; });
    assert.equal(linkedStep[0], `第 ${linkedStep[1]} 步`);
    assert.match(await text(page, '#chosen'), new RegExp(`已选第 ${linkedStep[1]} 步`));
    await sound(opened);
    await shot(page, 'chinese');
    // Without its Chinese words, as from an earlier version, the diagnosis stays English.
    await page.evaluate(() => { delete data.runs[0].diagnosis.zh.hypotheses; delete data.runs[0].diagnosis.zh.headline; redraw(); });
    assert.ok((await told()).includes(given.headline));
    await page.evaluate(() => { delete data.runs[0].diagnosis.zh; redraw(); });
    assert.ok((await told()).includes(given.headline));
    await page.close();
  },
  async 'a healthy run, and one of two ranks'() {
    for (const name of ['healthy.db', 'distributed']) {
      const opened = await open(report(name));
      await sound(opened);
      assert.match(await text(opened.page, '#status'), /healthy|not established/);
      await shot(opened.page, name.replace('.db', ''));
      await opened.page.close();
    }
  },
  async 'two runs laid over each other'() {
    const opened = await open(report('broken.db', 'bf16.db'));
    await sound(opened);
    const sets = await opened.page.evaluate(() => charts[0].data.datasets.map(each => each.run));
    assert.ok(sets.includes(0) && sets.includes(1));
    await opened.page.$eval('#curves', each => each.scrollIntoView());
    await shot(opened.page, 'two');
    await opened.page.close();
  },
  async 'no step, one step, NaN everywhere, hostile and long names'() {
    for (const name of ['empty.db', 'one.db', 'nan.db', 'hostile.db', 'long.db']) {
      const opened = await open(report(name));
      try {
        await sound(opened);
      } catch (error) { throw new Error(`${name}: ${error.message}`); }
      await shot(opened.page, name.replace('.db', ''));
      await opened.page.close();
    }
  },
  async 'axes, columns and bars where there is something'() {
    const opened = await open(report('healthy.db'));
    const drawn = await opened.page.evaluate(() => {
      const run = structuredClone(data.runs[0]);
      const curve = (values) => ({ least: values, greatest: values, last: values });
      run.alerts = [];
      run.course = { steps: 3, step: [0, 1, 2], end: [0, 1, 2], not_finite: [0, 0, 0], skipped: [0, 0, 0],
        curves: { loss: curve([1, 1e-2, 1e-5]), lr: curve([3e-4, 3e-4, 3e-4]) } };
      run.heat = { layers: ['a', 'b'], dtypes: ['float32', 'float32'], first_steps: [0, 10, 20], last_steps: [9, 19, 29], samples_read: 3, layers_left_out: 0,
        maps: [{ kind: 'activation', figure: 'absmax', rows: [[1, null, 2], [null, null, 3]] }] };
      const histogram = (layer, step, counts) => ({ layer, kind: 'activation', step, counts, zeros: 5 });
      run.histograms = [histogram('a', 0, []), histogram('b', 0, [[-1, 7]]), histogram('b', 9, [])];
      data = { runs: [] };
      Object.assign(chosen, { layer: null, at: null, step: null });
      show([run]);
      const bars = histogramCharts[0].data.datasets[0].data;
      return { loss: charts[0].options.scales.y.type, lr: charts[1].scales.y.ticks.map((tick) => tick.label),
        columns: [...new Set([...document.querySelectorAll('#heat td')].map((cell) => cell.dataset.column))], elements: bars.reduce((all, one) => all + one, 0) };
    });
    assert.deepEqual(drawn, { loss: 'logarithmic', lr: ['3.00e-4'], columns: ['0', '2'], elements: 7 });
    await shot(opened.page, 'axes');
    await opened.page.close();
  },
  async 'view: live, only at its address, gone with the program'() {
    const { child, url } = await startView('broken.db');
    const opened = await openPage(context, url);
    await opened.page.waitForSelector('#curves canvas');
    assert.match(await text(opened.page, '#status'), /broken · .* · live/s);
    assert.ok(opened.seen.requests.every(each => each.startsWith(url) || each.endsWith('/favicon.ico')), String(opened.seen.requests));
    assert.deepEqual(await accessibility(context, opened.page), []);
    // What has the focus keeps it when the page is drawn anew.
    await opened.page.focus('#settings select');
    await opened.page.evaluate(() => redraw());
    assert.equal(await opened.page.evaluate(() => document.activeElement.tagName), 'BODY');
    await opened.page.focus('#heat select');
    await opened.page.evaluate(() => redraw());
    assert.equal(await opened.page.evaluate(() => document.activeElement.closest('section')?.querySelector('h2')?.id), 'heat-title');
    const origin = new URL(url).origin;
    assert.equal((await fetch(origin + '/')).status, 404);
    assert.equal((await fetch(url, { method: 'POST' })).status, 405);
    assert.equal((await fetch(url + 'data.json', { headers: { Origin: 'https://elsewhere.example' } })).status, 403);
    const first = await fetch(url + 'data.json');
    const again = await fetch(url + 'data.json', { headers: { 'If-None-Match': first.headers.get('ETag') } });
    assert.equal(again.status, 304);
    child.kill('SIGINT');
    assert.equal(await new Promise(resolve => child.once('exit', resolve)), 0);
    await opened.page.evaluate(() => follow());
    assert.match(await text(opened.page, '#note'), /has ended/);
    await opened.page.close();
  },
  async 'view follows a run that goes on'() {
    const training = start(python, [path.join(here, 'make_runs.py'), runs, 'slow']);
    const database = path.join(runs, 'slow.db');
    while (!existsSync(database + '-ring')) await new Promise(done => setTimeout(done, 200));
    await new Promise(done => setTimeout(done, 2000));
    const { child, url } = await startView('slow.db');
    const { page } = await openPage(context, url);
    await page.waitForSelector('#curves canvas');
    const steps = () => page.evaluate(() => data.runs[0].summary.steps);
    const first = await steps();
    assert.match(await text(page, '#status'), /running/);
    await page.waitForFunction(before => data.runs[0].summary.steps > before + 10, { timeout: 20_000 }, first);
    assert.ok(await page.evaluate(() => charts[0].data.datasets.at(-1).data.length) > first);
    training.kill();
    child.kill();
    await page.close();
  },
};

const failed = await runChecks(checks);
for (const child of children) child.kill();
await context.browser.close();
process.exit(failed ? 1 : 0);
