// Opens pages of the console with a lot on them, and prints what they weigh and how long they take.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

const { BASE_URL: base, EMAIL: email, PASSWORD: password, TOOLS: tools, PICTURES: pictures, RUNS: runs, WIDE: wide, LONG: long, LOOP: loop, WAITING: waiting, FAILED: failed } = process.env;
const { launch, contextOf, picture } = await import(pathToFileURL(join(tools, 'browser.mjs')));
const browser = await launch();
const context = await contextOf(browser, { viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
page.on('console', message => { if (message.type() === 'error') assert.fail(message.text()); });
page.on('pageerror', error => assert.fail(error));
await page.goto(base + '/settings');
await page.fill('input[name=email]', email);
await page.fill('input[name=password]', password);
await page.click('button.main');
await page.waitForURL(/\/console\/[^/]+$/);

// look opens a page and returns its size in kB, compressed. It prints how long the page took to load, and its
// longest script task.
async function look(name, path) {
  await page.addInitScript(() => {
    globalThis.tasks = [];
    new PerformanceObserver(list => globalThis.tasks.push(...list.getEntries().map(one => one.duration))).observe({ type: 'longtask', buffered: true });
  });
  const answer = await page.goto(base + path, { waitUntil: 'load' });
  const size = gzipSync(await answer.body()).length / 1000;
  const [loaded, longest] = await page.evaluate(() => [performance.getEntriesByType('navigation')[0].loadEventEnd, Math.max(0, ...globalThis.tasks)]);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${name} is ${over} pixels too wide`);
  console.log(`${name}: ${size.toFixed(1)} kB compressed, loaded after ${loaded.toFixed(0)} ms, longest task ${longest.toFixed(0)} ms`);
  await picture(page, pictures, name);
  return size;
}

const list = await look('runs', runs);
assert.ok(list <= 100, `a list weighs ${list} kB`);
await look('overview', runs.replace(/\/runs$/, ''));
await look('executions', runs.replace(/runs$/, 'executions'));
await look('run', wide);
await look('run-long', long);
await look('run-loop', loop + '?component=each');
await look('run-item', loop + '?component=each&item=96');
await look('run-waiting', waiting);
await look('run-failed', failed);

// The picture of the README, which is kept in internal/web/console/pictures.
if (pictures)
  for (const colorScheme of ['light', 'dark']) {
    await page.setViewportSize({ width: 1200, height: 860 });
    await page.emulateMedia({ colorScheme });
    await page.goto(base + loop + '?component=each');
    await page.screenshot({ path: join(pictures, `run-${colorScheme}.png`) });
  }

// A click on a square of the grid opens its item.
await page.goto(base + loop + '?component=each');
const cell = Number(await page.getAttribute('[data-grid]', 'data-cell'));
await page.locator('[data-grid]').click({ position: { x: 3 * cell + 3, y: 3 } });
await page.waitForURL(/item=3#component$/);
await browser.close();
