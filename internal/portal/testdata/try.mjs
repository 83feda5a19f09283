// Tries the API from the pages, as readers do: the key is given to the page, requests are
// signed in it, and the service's answers are read. Nothing goes to another origin, and
// nothing of the key is kept or sent.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { BASE_URL: base, API_KEY: apiKey, API_SECRET: apiSecret, TOOLS: tools, PICTURES: pictures } = process.env;
const { launch } = await import(pathToFileURL(join(tools, 'browser.mjs')));
const browser = await launch();

async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url());
    if (!['data:', 'blob:'].includes(protocol)) assert.equal(origin, base, `the page asked ${request.url()}`);
    const sent = request.url() + JSON.stringify(request.headers()) + (request.postData() ?? '');
    assert.ok(!sent.includes(apiSecret.slice(20)), 'the secret was sent');
  });
  page.on('console', message => assert.ok(message.type() !== 'error' || /status of 4/.test(message.text()), message.text()));
  page.on('pageerror', error => assert.fail(error));
  await page.goto(base + path, { waitUntil: 'networkidle' });
  return page;
}

async function shoot(page, name) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

async function give(page) {
  await page.locator('#weft-api-key').fill(apiKey);
  await page.locator('#weft-api-secret').fill(apiSecret);
  await page.locator('.weft-key .main').click();
  await page.locator('.weft-dialog').waitFor({ state: 'detached' });
}

async function keepsNothing(page) {
  const kept = await page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, (await indexedDB.databases()).map(one => one.name), location.href]));
  assert.ok(!kept.includes(apiKey) && !kept.includes(apiSecret.slice(20)), `the page kept ${kept}`);
  assert.ok(!(await page.content()).includes(apiSecret.slice(20)), 'the secret stands in the page');
}

// The guide's own call.
const guide = await open('/docs/first-call');
await guide.locator('[data-send]').click();
await guide.locator('#weft-api-key').fill('nonsense');
await guide.locator('#weft-api-secret').fill('nonsense');
await guide.locator('.weft-key .main').click();
assert.match(await guide.locator('.weft-key .fault').innerText(), /begins with ws_/);
await give(guide);
await guide.locator('[data-result]').waitFor();
assert.equal(await guide.locator('[data-status]').innerText(), '200');
assert.match(await guide.locator('[data-signed]').innerText(), /^POST\|\/v1\/sdk\/components\|\d+\|\{\n/);
const record = JSON.parse(await guide.locator('[data-answer]').innerText());
assert.equal(record.status, 'COMPLETED');
assert.match(record.output.uuid, /^[0-9a-f-]{36}$/);
await guide.locator('.try').scrollIntoViewIfNeeded();
await shoot(guide, 'guide-try');
await keepsNothing(guide);

// A body that is not what was expected is answered as such, signed all the same.
await guide.locator('.try textarea').fill('{"module":"HASH","input":{"data":"é 漢 😀"},"config":{}, "waitForMs": 15000 }');
await guide.locator('[data-send]').click();
await guide.locator('[data-answer]', { hasText: 'digest' }).waitFor();
await guide.locator('.try textarea').fill('{"module":"NONE","input":{},"config":{}}');
await guide.locator('[data-send]').click();
await guide.locator('[data-status].not-ok', { hasText: '400' }).waitFor();

// With another page the key is gone.
await guide.reload({ waitUntil: 'networkidle' });
assert.match(await guide.locator('[data-key]').innerText(), /needs your key/);

// The reference: one operation with a body, one with a path, one with a query. The answer
// is the service's, to what was sent.
async function tryIt(page, path, change = async () => {}) {
  const button = page.locator(`[id="api-1/${path}"]`).getByRole('button', { name: /Test Request/ }).first();
  await button.scrollIntoViewIfNeeded();
  await button.click();
  const window = page.locator('[role=dialog]');
  await window.getByRole('button', { name: /Send/ }).first().waitFor();
  await change(window);
  const answered = page.waitForResponse(response => response.url().startsWith(`${base}/v1/`));
  await window.getByRole('button', { name: /Send/ }).first().click();
  if (!await page.evaluate(() => weftSigner.ready)) await give(page);
  return await answered;
}

const submit = 'tag/components/POST/v1/sdk/components';
for (const [size, viewport] of [['wide', { width: 1440, height: 900 }], ['narrow', { width: 390, height: 844 }]])
  for (const colorScheme of ['light', 'dark']) {
    const name = `reference-${size}-${colorScheme}`;
    const page = await open(`/docs/reference#${submit}`, { viewport, colorScheme });
    await page.locator(`[id="api-1/${submit}"]`).getByRole('button', { name: /Test Request/ }).first().waitFor();
    await shoot(page, name);
    const answer = await tryIt(page, submit);
    assert.equal(answer.status(), 200, await answer.text());
    const done = await answer.json();
    assert.deepEqual([done.module, done.status], ['RANDOM_UUID', 'COMPLETED']);
    await page.getByText(done.output.uuid).first().waitFor();
    await page.getByText('200 OK').first().scrollIntoViewIfNeeded();
    await page.waitForTimeout(600); // what fades in is there
    assert.match(await page.locator('[role=dialog]').innerText(), /200 OK/);
    await shoot(page, `${name}-tried`);
    await keepsNothing(page);
    await page.context().close();
  }

const reference = await open('/docs/reference#tag/components/GET/v1/sdk/components/executions');
const list = await tryIt(reference, 'tag/components/GET/v1/sdk/components/executions');
assert.equal(list.status(), 200, await list.text());
assert.ok((await list.json()).data.length >= 5);

// Without a key the request goes as it is, and the service says what is missing.
const stranger = await open(`/docs/reference#${submit}`);
const button = stranger.locator(`[id="api-1/${submit}"]`).getByRole('button', { name: /Test Request/ }).first();
await button.click();
await stranger.locator('[role=dialog]').getByRole('button', { name: /Send/ }).first().click();
const refused = stranger.waitForResponse(`${base}/v1/sdk/components`);
await stranger.locator('.weft-key [value=cancel]').click();
assert.equal((await refused).status(), 401);

await browser.close();
console.log('seen');
