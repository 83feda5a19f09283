// Looks at the pages as people do: wide and narrow, light and dark.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { base, browser, contextOf, picture, pictures } from './shared.mjs';

const context = await contextOf(browser, { permissions: ['clipboard-read', 'clipboard-write'] });

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

async function fits(page, thorough = true) {
  for (const width of [390, 800, 1440]) {
    await page.setViewportSize({ width, height: 844 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${page.url()} is ${over} pixels wider than a window of ${width}`);
    assert.deepEqual(await page.evaluate(covered), [], `${page.url()} at ${width}`);
    if (full ? width !== 800 : thorough && width === 1440) await accessible(page);
  }
}

// covered returns the code that wraps or lies below a button, and the tables that are cut.
function covered() {
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const boxes = [...document.querySelectorAll('.code')].filter(box => box.getClientRects().length);
  const below = boxes.filter(box => {
    const [code, button] = [box.querySelector('pre'), box.querySelector('button')];
    return getComputedStyle(code).whiteSpace !== 'pre' || button && !apart(code.getBoundingClientRect(), button.getBoundingClientRect());
  });
  const cut = [...document.querySelectorAll('table')].filter(table => !table.closest('.scroll'));
  return [...below, ...cut].map(one => one.textContent.slice(0, 60));
}

// accessible checks a page with axe. The soak checks every page, wide and narrow. Otherwise one page of
// each kind is checked, because all of a kind have the same styles and templates.
const full = process.env.AXE === 'full';
const axe = readFileSync(join(process.env.TOOLS, 'node_modules/axe-core/axe.min.js'), 'utf8');
async function accessible(page) {
  if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ['violations'] })).violations
    .map(one => `${one.id}: ${one.nodes.length} times, such as ${one.nodes[0].html.slice(0, 160)}`));
  assert.deepEqual(found, [], page.url());
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

// The first page leads to everything.
const home = await open('/docs');
for (const selector of ['.hero .lead', '.hero h1 em', '.door', '.door.quiet', '.ways span', '.ways b', '.code .string', '.code .keyword', '.code .name', '.ok', 'footer a']) await readable(home, selector);
await fits(home);
await picture(home, pictures, 'home');

// The guides: every one fits, and what stands out in code can be read.
const paths = await home.locator('.cards a').evaluateAll(links => links.map(link => link.getAttribute('href')));
const guide = await open('/docs');
for (const path of paths) {
  await guide.goto(base + path);
  await fits(guide, path === '/docs/first-call');
  await picture(guide, pictures, path.slice('/docs/'.length));
}
await guide.goto(base + '/docs/first-call');
for (const selector of ['.prose > h1 + p', '.code .string', '.code .comment', '.code p', '.code .run', '.side a', '.toc a', '.prose th', '.prose blockquote a', '.tabs label', '.try .soft']) await readable(guide, selector);
await guide.setViewportSize({ width: 1440, height: 900 });
const shown = () => guide.locator('.tabs .code:visible > p').first().innerText();
assert.match(await shown(), /^call\.sh/);
await guide.locator('.tabs label', { hasText: 'Python' }).click();
assert.match(await shown(), /^call\.py/);
await guide.goto(base + '/docs/dev');
assert.ok((await guide.locator('.code', { hasText: 'is ready' }).innerText()).includes('http://127.0.0.1:8080/open'), 'output of weft dev has the address of this deployment');
await guide.goto(base + '/docs/signers');
assert.ok(await guide.locator('.tabs label', { hasText: 'Python' }).first().evaluate(one => one.previousElementSibling.checked), 'the language is forgotten');
await guide.goto(base + '/docs/first-call');
await guide.locator('.code[data-language=console] button').first().click();
assert.equal(await guide.evaluate(() => navigator.clipboard.readText()), 'bin/weft call RANDOM_UUID --wait 15s');
assert.match(await guide.locator('.code', { hasText: 'signers/weft_curl.sh' }).first().innerText(), new RegExp(base), 'commands name this deployment');

// Errors: a long page that folds. A link to an entry opens it, from elsewhere, from the page and
// once more, and one button opens all. (Browsers without a window cannot be asked to find text.)
const errors = await open('/docs/errors#reason.sign_in_attempts');
const entry = id => errors.locator('details.entry', { has: errors.locator(`[id="${id}"]`) });
const stands = (id, is) => errors.waitForFunction(([id, is]) => document.getElementById(id).closest('details').open === is, [id, is]);
await stands('reason.sign_in_attempts', true);
assert.equal(await errors.locator('details.entry[open]').count(), 1);
await errors.setViewportSize({ width: 390, height: 844 });
const tall = await errors.evaluate(() => document.documentElement.scrollHeight);
assert.ok(tall < 28_000, `the errors are ${tall} pixels long on a phone`);
await errors.locator('p a[href="#RATE_LIMITED"]').first().click();
await stands('RATE_LIMITED', true);
const top = await entry('RATE_LIMITED').evaluate(one => one.getBoundingClientRect().top);
assert.ok(top >= 52 && top < 200, `what is linked to stands at ${top}`);
await entry('RATE_LIMITED').locator('summary').click({ position: { x: 5, y: 12 } });
await stands('RATE_LIMITED', false);
await errors.locator('p a[href="#RATE_LIMITED"]').first().click();
await stands('RATE_LIMITED', true);
await entry('NOT_FOUND').locator('summary').focus();
await errors.keyboard.press('Enter');
await stands('NOT_FOUND', true);
await errors.getByRole('button', { name: 'Open all entries' }).click();
await errors.getByRole('button', { name: 'Close all entries' }).click();
assert.equal(await errors.locator('details.entry[open]').count(), 0);
for (const selector of ['.entry h4', '.widget .weft-button']) await readable(errors, selector);
await errors.close();

// The switch stays on the next page; until then it is the system's.
const theme = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
await guide.emulateMedia({ colorScheme: 'light' });
const light = await theme(guide);
await guide.click('[data-theme-switch]');
const dark = await theme(guide);
assert.notEqual(dark, light);
await guide.goto(base + '/docs/signing');
assert.equal(await theme(guide), dark);
await guide.evaluate(() => localStorage.clear());

// Search: by a key, by words, and to a place by Enter.
await guide.goto(base + '/docs');
await guide.keyboard.press('Control+k');
await guide.locator('.weft-dialog input').fill('wait evm');
await guide.locator('.found a', { hasText: 'WAIT_FOR_EVM_TRANSACTION' }).first().waitFor();
for (const [words, first] of [['java signer', 'Java signer'], ['executeComponent', 'Execute a component']]) {
  await guide.locator('.weft-dialog input').fill(words);
  await guide.locator('.found a[aria-selected=true]', { hasText: first }).waitFor();
}
assert.match(await guide.evaluate(() => document.getElementById(document.querySelector('.weft-dialog input').getAttribute('aria-activedescendant')).textContent), /^Execute a component/);
await guide.locator('.weft-dialog input').fill('when refused');
await guide.locator('.found a[aria-selected=true]', { hasText: 'When it is refused' }).waitFor();
await guide.keyboard.press('Enter');
await guide.waitForURL(base + '/docs/signing#when-it-is-refused');

// What is typed before the search has loaded is looked for once it has, in one window.
await guide.goto(base + '/docs');
let loaded;
await guide.route('**/docs/search.json', async route => {
  await new Promise(resolve => { loaded = resolve; });
  await route.continue();
});
const asked = guide.waitForRequest('**/docs/search.json');
await guide.keyboard.press('/');
await asked;
await guide.keyboard.type('/hash');
assert.equal(await guide.locator('.weft-dialog').count(), 1);
assert.equal(await guide.locator('.weft-dialog input').inputValue(), '/hash');
await guide.locator('.weft-dialog input').fill('hash');
assert.ok(await guide.locator('.weft-dialog .nothing').isHidden());
loaded();
await guide.locator('.found a', { hasText: 'HASH' }).first().waitFor();
await guide.keyboard.press('Escape');

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
for (const selector of ['.cards .soft', '.cards code', '.cards .price', '.lead', '.weft-bar nav a:not([aria-current])']) await readable(index, selector);
await fits(index);
await picture(index, pictures, 'components');
await index.click('.cards a[href$="/HASH"]');
await index.waitForURL(base + '/docs/components/HASH');

// A page: the workflow file and the line can be copied, the neighbours are one click away.
const one = await open('/docs/components/API_CALL');
for (const [at, start] of [/^# Input: [^]*module: API_CALL\n/, /^weft call API_CALL /].entries()) {
  await one.locator('.code button').nth(at).click();
  assert.match(await one.evaluate(() => navigator.clipboard.readText()), start);
}
assert.match(await one.locator('.side [aria-current]').innerText(), /^API call\s+API_CALL$/);
for (const selector of ['.facts', 'caption', 'td a code', '.required', '.secret', '.type', '.field dt', '.field dd code', '.side a', '.code p', '.crumbs a']) await readable(one, selector);
await fits(one);
await picture(one, pictures, 'api-call');
await one.click('footer [rel=next]');
assert.match(await one.locator('h1 code').innerText(), /^[A-Z0-9_]+$/);

// A format leads to what it means.
await one.goto(base + '/docs/components/GET_EVM_ACCOUNT_BALANCE');
await one.click('.field a[href$="#format.evm-address"]');
await one.locator('[id="format.evm-address"]', { hasText: 'EIP-55' }).waitFor();

// By the keyboard: the first stop leads past the list beside the page, and each can be seen.
const keys = await open('/docs/components/HASH');
const focused = () => keys.evaluate(() => {
  const { x, width } = document.activeElement.getBoundingClientRect();
  return { text: document.activeElement.textContent, seen: x >= 0 && width > 0 && getComputedStyle(document.activeElement).outlineStyle !== 'none', inside: !!document.activeElement.closest('main') };
});
const stops = [];
for (let i = 0; i < 8; i++) {
  await keys.keyboard.press('Tab');
  stops.push(await focused());
}
assert.equal(stops[0].text, 'Skip to the content');
assert.ok(stops.every(one => one.seen), JSON.stringify(stops));
assert.ok(stops.slice(1, 5).some(one => one.text === 'Guides'), JSON.stringify(stops));
await keys.reload();
await keys.keyboard.press('Tab');
await keys.keyboard.press('Enter');
await keys.keyboard.press('Tab');
assert.ok((await focused()).inside, JSON.stringify(await focused()));
await keys.close();

for (const module of ['ON_WEBHOOK', 'HASH', 'IF', 'WAIT_FOR_EVM_TRANSACTION']) {
  const page = await open(`/docs/components/${module}`);
  await fits(page, false);
  await picture(page, pictures, module.toLowerCase());
}

// The reference.
const reference = await open('/docs/reference');
await fits(reference, false);
for (const selector of ['.method', '.target code', '.tag.required', '.operation .type']) await readable(reference, selector);
await reference.close();

// Without scripts all of it is there.
const plain = await contextOf(browser, { javaScriptEnabled: false });
const still = await plain.newPage();
await still.goto(base + '/docs/components/HASH');
assert.ok(await still.locator('#input\\.data').isVisible());
await still.goto(base + '/docs/first-call');
await still.locator('.tabs label', { hasText: 'Java' }).click();
assert.ok(await still.locator('.code', { hasText: 'public class Call' }).isVisible());
await still.goto(base + '/docs/components/HASH');
await still.click('.side summary');
assert.ok(await still.locator('.side a[href$="/IF"]').isVisible());

await plain.close();
await context.close();
