// Times of the page of a run: made by `mpnanny report`, opened in a real Chromium. See README.md.
// Usage: node bench/report_page.mjs PROGRAM RUN MODULES CHROMIUM [ROUNDS]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { openBrowser, openPage } from '../tests/pictures/browser.mjs';

const [program, run, modules, chromium, rounds = '5'] = process.argv.slice(2);
const folder = mkdtempSync(path.join(os.tmpdir(), 'report-'));
const file = path.join(folder, 'run.html');
const context = await openBrowser(modules, chromium);
const median = all => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];
const made = [], opened = [];
for (let round = 0; round < Number(rounds); ++round) {
  const start = performance.now();
  execFileSync(program, ['report', run, '-o', file]);
  made.push(performance.now() - start);
  const { page, ms } = await openPage(context, pathToFileURL(file).href);
  opened.push(ms);
  await page.close();
}
await context.browser.close();
const told = all => `${Math.round(median(all))} ms (${Math.round(Math.min(...all))} to ${Math.round(Math.max(...all))})`;
console.log(`made in ${told(made)}, ${(statSync(file).size / 1e6).toFixed(2)} MB, opens in ${told(opened)}`);
rmSync(folder, { recursive: true });
