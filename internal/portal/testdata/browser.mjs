// Looks at the pages of components as people do: wide and narrow, light and dark.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { BASE_URL: base, TOOLS: tools, PICTURES: pictures } = process.env;
const { launch, picture } = await import(pathToFileURL(join(tools, 'browser.mjs')));
const browser = await launch();
const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
context.setDefaultTimeout(20_000);

async function open(path) {
  const page = await context.newPage();
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== 'data:') assert.equal(origin, base, `the page asked ${request.url()}`);
  });
  page.on('console', message => assert.notEqual(message.type(), 'error', message.text()));
  page.on('pageerror', error => assert.fail(error));
  await page.goto(base + path);
  return page;
}

async function fits(page) {
  for (const width of [390, 800, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${page.url()} is ${over} pixels wider than a window of ${width}`);
  }
}

// How much lighter one colour is than another (WCAG 2.2): texts need 4.5.
async function readable(page, selector) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    const ratio = await page.locator(selector).first().evaluate(element => {
      const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const luminance = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(one => one / 255).map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      let behind = element;
      while (/rgba\(0, 0, 0, 0\)|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
      const [dark, light] = [luminance(getComputedStyle(element).color), luminance(getComputedStyle(behind).backgroundColor)].sort((a, b) => a - b);
      return (light + 0.05) / (dark + 0.05);
    });
    assert.ok(ratio >= 4.5, `${selector} has a contrast of ${ratio.toFixed(2)} in ${colorScheme}`);
  }
}

// The index: by category, and what is typed leaves what has it.
const index = await open('/docs/components');
const cards = index.locator('.cards li:visible');
const all = await cards.count();
await index.fill('#filter', 'random uuid');
assert.deepEqual(await cards.locator('code').allInnerTexts(), ['RANDOM_UUID']);
assert.equal(await index.locator('.family:visible').count(), 1);
await index.fill('#filter', 'nothing has this');
await index.locator('#none').waitFor();
await index.fill('#filter', '');
assert.equal(await cards.count(), all);
for (const selector of ['.cards .soft', '.cards code', '.cards .price', '.lead', '.bar nav a:not([aria-current])']) await readable(index, selector);
await fits(index);
await picture(index, pictures, 'components');
await index.click('.cards a[href$="/HASH"]');
await index.waitForURL(base + '/docs/components/HASH');

// A page: the line can be copied, the neighbours are one click away.
const one = await open('/docs/components/API_CALL');
await one.locator('.code button').first().click();
assert.match(await one.evaluate(() => navigator.clipboard.readText()), /^weft call API_CALL /);
assert.equal(await one.locator('.side [aria-current]').innerText(), 'API_CALL');
for (const selector of ['.required', '.secret', '.type', '.field dt', '.field dd code', '.side a', '.code p', '.crumbs a']) await readable(one, selector);
await fits(one);
await picture(one, pictures, 'api-call');
await one.click('footer [rel=next]');
assert.match(await one.locator('h1 code').innerText(), /^[A-Z0-9_]+$/);

for (const module of ['ON_WEBHOOK', 'HASH', 'IF', 'WAIT_FOR_EVM_TRANSACTION']) {
  const page = await open(`/docs/components/${module}`);
  await fits(page);
  await picture(page, pictures, module.toLowerCase());
}

// Without scripts all of it is there.
const plain = await browser.newContext({ javaScriptEnabled: false });
const still = await plain.newPage();
await still.goto(base + '/docs/components/HASH');
assert.ok(await still.locator('#input\\.data').isVisible());
await still.click('.side summary');
assert.ok(await still.locator('.side a[href$="/IF"]').isVisible());

await browser.close();
console.log('seen');
