// A real browser for the pictures' tests: Chromium without a window, whatever it complains of, and axe-core.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// `modules`: folder of node_modules with puppeteer-core and axe-core; `program`: Chromium.
export async function openBrowser(modules, program) {
  const require = createRequire(pathToFileURL(path.join(modules, 'package.json')));
  const { default: puppeteer } = await import(pathToFileURL(require.resolve('puppeteer-core')));
  const browser = await puppeteer.launch({
    executablePath: program, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--force-color-profile=srgb'],
  });
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  return { browser, axe };
}

// A page whose complaints and requests are kept.
export async function openPage({ browser }, url, { width = 1200, height = 900, scheme = 'light' } = {}) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  const seen = { complaints: [], requests: [] };
  page.on('console', message => { if (['error', 'warn'].includes(message.type())) seen.complaints.push(message.text()); });
  page.on('pageerror', error => seen.complaints.push(String(error)));
  page.on('request', request => { if (!request.url().startsWith('data:')) seen.requests.push(request.url()); });
  const start = performance.now();
  await page.goto(url, { waitUntil: 'load' });
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  return { page, seen, ms: performance.now() - start };
}

// What axe-core finds against WCAG 2.2 AA and its best practices, one line each.
export async function accessibility({ axe }, target) {
  await target.evaluate(axe);
  const { violations } = await target.evaluate(() => globalThis.axe.run(document));
  return violations.map(each => `${each.id} (${each.impact}): ${each.help}: ${each.nodes[0].html.slice(0, 200)} ${each.nodes[0].failureSummary.slice(0, 300)}`);
}

// Runs each check by its name and says how it went; the number of those that failed.
export async function runChecks(checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    const start = performance.now();
    try {
      await check();
      console.log(`ok   ${name} (${Math.round(performance.now() - start)} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${name}\n${error.stack}`);
    }
  }
  console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`);
  return failed;
}
