// Tries the API from the pages, as readers do: it enters a key, and checks the responses to
// requests that the page signs. The page sends nothing to another origin, stores nothing of the
// key, and never sends the secret.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { base, browser, contextOf, pictures } from './shared.mjs';

const { API_KEY: apiKey, API_SECRET: apiSecret } = process.env;

async function open(path, options = {}) {
  const context = await contextOf(browser, { viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url());
    if (!['data:', 'blob:'].includes(protocol)) assert.equal(origin, base, `the page asked ${request.url()}`);
    const sent = request.url() + JSON.stringify(request.headers()) + (request.postData() ?? '');
    assert.ok(!sent.includes(apiSecret.slice(20)), 'the secret was sent');
  });
  page.on('console', message => assert.ok(message.type() !== 'error' || /status of 4/.test(message.text()), message.text()));
  page.on('pageerror', error => assert.fail(error));
  await page.goto(base + path);
  return page;
}

async function shoot(page, name) {
  if (!pictures) return;
  await page.evaluate(() => Promise.all(document.getAnimations().filter(one => one.effect.getComputedTiming().endTime < Infinity).map(one => one.finished.catch(() => {}))));
  await page.screenshot({ path: join(pictures, `${name}.png`) });
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
assert.match(await guide.locator('.weft-key .fault').innerText(), /must start with ws_/);
// Requests carry the key, so the dialog must not promise otherwise; only the secret stays here.
assert.match(await guide.locator('.weft-key').innerText(), /The secret stays in this page's memory and is never sent/);
const sentKey = guide.waitForRequest('**/v1/sdk/components');
await give(guide);
assert.equal(await (await sentKey).headerValue('X-Api-Key'), apiKey);
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
await guide.reload();
assert.match(await guide.locator('[data-key]').innerText(), /needs your key/);

// The service takes nothing that was signed in its future, and tells its time in whole seconds:
// what is signed in the second that it told is a second old.
await guide.route('**/healthz', route => route.fulfill({ headers: { Date: 'Thu, 01 Jan 2026 00:00:10 GMT' } }));
await guide.clock.setFixedTime('2026-01-01T00:00:10.900Z');
const signedAt = await guide.evaluate(async ([key, secret]) => {
  await weftSigner.use(key, secret);
  return (await weftSigner.sign(new Request('/v1/sdk/components'))).request.headers.get('X-Sdk-Timestamp');
}, [apiKey, apiSecret]);
assert.equal(Number(signedAt), Date.parse('2026-01-01T00:00:09Z') / 1000);
await guide.context().close();

// The sample of the home page runs, and its answer stands where the sample's stood.
const home = await open('/docs');
await home.locator('[data-send]').click();
assert.equal(await home.locator('#weft-api-secret').getAttribute('type'), 'password');
await give(home);
await home.locator('[data-answer]', { hasText: '"completed": true' }).waitFor();
await keepsNothing(home);
await home.context().close();

// The reference: a link to an operation leads to it, and its samples sign and name this deployment.
const submit = 'tag/components/POST/v1/sdk/components';
const page = await open(`/docs/reference#${submit}`, { colorScheme: 'light' });
const operation = path => page.locator('.operation', { has: page.locator(`[id="${path}"]`) });
const answerOf = path => page.waitForResponse(response => response.url().startsWith(base + path));
const at = await page.locator(`[id="${submit}"]`).evaluate(one => one.getBoundingClientRect().top);
assert.ok(at >= 52 && at < 200, `the operation that was linked to stands at ${at}`);
assert.ok((await operation(submit).innerText()).includes('Once the request is answered with 200, the execution is stored'));
for (const [language, line] of [['Shell', `curl -fsSO ${base}/docs/signers/weft_curl.sh`], ['Python', 'weft.request('], ['TypeScript', 'weft.fetch('], ['Go', 'weft.Request('], ['Java', 'weft.request(']]) {
  await operation(submit).locator('.tabs label', { hasText: language }).first().click();
  assert.ok((await operation(submit).locator('.tabs .code:visible').innerText()).includes(line), `the sample in ${language} does not sign`);
}

// Its form fits, wide and narrow.
await operation(submit).getByRole('button', { name: /^Try it/ }).click();
for (const [size, viewport] of [['narrow', { width: 390, height: 844 }], ['wide', { width: 1440, height: 900 }]]) {
  await page.setViewportSize(viewport);
  await operation(submit).locator('.try').scrollIntoViewIfNeeded();
  await shoot(page, `reference-${size}`);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `the reference is ${over} pixels wider than a ${size} window`);
}

// Without a key the request goes as it is, and the service says what is missing.
const send = operation(submit).locator('[data-send]');
const refused = answerOf('/v1/sdk/components');
await send.click();
await page.locator('.weft-key [value=cancel]').click();
assert.equal((await refused).status(), 401);

// With one it is signed: the answer is the service's, to what was sent.
const answered = answerOf('/v1/sdk/components');
await send.click();
await give(page);
assert.equal((await answered).status(), 200, await (await answered).text());
const done = await (await answered).json();
assert.deepEqual([done.module, done.status], ['RANDOM_UUID', 'COMPLETED']);
await operation(submit).getByText(done.output.uuid).first().waitFor();
await shoot(page, 'reference-tried');

// A link to another operation leads there without another load, and the key is still there.
const executions = 'tag/components/GET/v1/sdk/components/executions';
await page.evaluate(hash => { location.hash = hash; }, executions);
await operation(executions).getByRole('button', { name: /^Try it/ }).click();
const listed = answerOf('/v1/sdk/components/executions');
await operation(executions).locator('[data-send]').click();
assert.equal((await listed).status(), 200, await (await listed).text());
assert.ok((await (await listed).json()).data.length >= 3);
await keepsNothing(page);

// The stream of a waiting run stays open: its events show as they come, and it can be sent again.
const stream = 'tag/runs/GET/v1/sdk/workflows/executions/{runId}/stream';
await operation(stream).getByRole('button', { name: /^Try it/ }).click();
await operation(stream).locator('[data-to]').fill(process.env.WAITING);
for (let i = 0; i < 2; i++) {
  const opened = answerOf(process.env.WAITING);
  await operation(stream).locator('[data-send]').click();
  assert.equal((await opened).status(), 200);
  await operation(stream).locator('[data-answer]', { hasText: 'data: {' }).waitFor();
  assert.ok(await operation(stream).locator('.fault').isHidden());
}
await page.context().close();
