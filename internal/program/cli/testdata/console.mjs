// Drives a real browser through the console of a running Weft, as people do who run workflows from the
// command line and look at them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const { BASE_URL: base, EMAIL: email, PASSWORD: password, TOOLS: tools, WEFT: program } = process.env;
const { launch, contextOf } = await import(pathToFileURL(join(tools, 'browser.mjs')));
const weft = async (...args) => (await promisify(execFile)(program, args)).stdout.trim();
const axe = readFileSync(join(tools, 'node_modules/axe-core/axe.min.js'), 'utf8');

const browser = await launch();
const context = await contextOf(browser, { viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
page.on('request', request => {
  const { origin, protocol } = new URL(request.url());
  if (protocol !== 'data:') assert.equal(origin, base, `the page asked ${request.url()}`);
});
page.on('console', message => { // a rejected form is a page with the status 422
  if (message.type() === 'error' && !message.text().includes('status of 422')) assert.fail(message.text());
});
page.on('pageerror', error => assert.fail(error));
page.on('dialog', dialog => assert.fail(`a script of a workflow ran: ${dialog.message()}`));

// sound checks a page with axe in both colour schemes, and that it fits a window of 320 pixels, which is also
// one of 640 at 200 % zoom.
async function sound() {
  for (const colorScheme of ['dark', 'light'])
    for (const width of [320, 1280]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${page.url()} is ${over} pixels wider than a window of ${width}`);
      if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
      const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ['violations'] })).violations
        .map(one => `${one.id}: ${one.nodes.length} times, such as ${one.nodes[0].html.slice(0, 200)}`));
      assert.deepEqual(found, [], `${page.url()}, ${width} pixels wide, ${colorScheme}`);
    }
}

const status = name => page.locator('#head .status', { hasText: name });

// The programs of the playground that run here, each with what it is saved as and how it is started.
const languages = [
  ['Shell', 'call.sh', 'bash'], ['Python', 'call.py', 'python3'],
];
const { apiKey, apiSecret } = JSON.parse(readFileSync(process.env.WEFT_CREDENTIALS, 'utf8'));

// paste saves a program, downloads its signer as its first lines say, and runs it.
async function paste(code, file, program) {
  const within = mkdtempSync(join(tmpdir(), 'paste-'));
  writeFileSync(join(within, file), code);
  const fetch = code.match(/^(?:[#/]+ )?(curl .*)$/m)[1];
  const environment = { ...process.env, WEFT_URL: base, WEFT_API_KEY: apiKey, WEFT_API_SECRET: apiSecret };
  await promisify(execFile)('bash', ['-c', fetch], { cwd: within, env: environment });
  return (await promisify(execFile)(program, [file], { cwd: within, env: environment })).stdout;
}

// Signing in leads to the overview, which says what to do first.
await page.goto(base + '/console');
await page.fill('input[name=email]', email);
await page.fill('input[name=password]', password);
await page.click('button.main');
await page.waitForURL(/\/console\/[^/]+$/);
const overview = page.url();
await page.getByText('Start with these commands').waitFor();
await sound();
await page.getByRole('link', { name: 'Runs', exact: true }).click();
await page.waitForURL(/\/runs$/);
const runs = page.url();
await page.getByText('No runs yet').waitFor();
await sound();

// A run that is started on the command line is announced, and opens by the keyboard.
const live = page.locator('#live');
await live.waitFor();
await weft('run', 'fanOut');
await weft('run', 'approval', '--input', '{"amount":"1000"}');
await page.reload();
await live.waitFor();
await page.locator('tr', { hasText: 'Fan-out' }).getByText('Completed').waitFor();
await page.keyboard.press('j');
assert.match(await page.evaluate(() => document.activeElement.textContent), /Approval/);
await page.keyboard.press('Enter');
await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);

// Approve it on its page.
await status('Running').waitFor();
await page.locator('.node.waiting', { hasText: 'Somebody approves' }).waitFor();
await sound();
await page.fill('textarea[name=payload]', '{"by": "ada"}');
await page.getByRole('button', { name: 'Send approved' }).click();
await status('Completed').waitFor();
await page.locator('#values', { hasText: '"by": "ada"' }).waitFor();

// Watch another one while the command line approves it.
const second = JSON.parse(await weft('run', 'approval', '-o', 'json'));
await page.goto(`${runs}/${second.runId ?? second.id}`);
await page.locator('.signal').waitFor();
await weft('runs', 'signal', second.runId ?? second.id, 'approved');
await status('Completed').waitFor();
assert.equal(await page.locator('.signal').count(), 0);

// New runs don't move the list, but are offered.
await page.goto(runs);
await live.waitFor();
const before = await page.locator('#rows tr').count();
const folder = mkdtempSync(join(tmpdir(), 'weft-console-'));
const hostile = '<img src=x onerror=alert(1)>';
writeFileSync(join(folder, 'broken.yaml'), `name: broken
components:
  start: {module: ON_API_CALLED}
  charge: {module: FAIL, name: "Charge ${hostile}", config: {code: CARD_DECLINED, message: "The card was declined. ${hostile}"}}
`);
await weft('workflows', 'push', join(folder, 'broken.yaml'));
await weft('run', 'broken').catch(() => {}); // the run fails, and so does the command
await page.getByRole('button', { name: 'Show 1 new run' }).waitFor();
assert.equal(await page.locator('#rows tr').count(), before);
await page.getByRole('button', { name: 'Show 1 new run' }).click();
await page.locator('#rows tr', { hasText: 'CARD_DECLINED' }).waitFor();

// Failed runs, by a filter in the address.
await page.getByRole('link', { name: 'Failed' }).click();
await page.waitForURL(/status=FAILED/);
assert.equal(await page.locator('#rows tr').count(), 1);
await sound();
await page.getByRole('link', { name: 'broken' }).click();

// A failed run opens at its first failure.
await status('Failed').waitFor();
assert.match(await page.locator('#component').innerText(), /CARD_DECLINED The card was declined/);
assert.match(await page.locator('#component .failure a').getAttribute('href'), /\/docs\/errors#CARD_DECLINED/);
await sound();

// Rerun it.
const failed = page.url();
await page.getByRole('button', { name: 'Rerun', exact: true }).click();
await page.waitForURL(address => address.href !== failed && /\/runs\/[0-9a-f-]{36}$/.test(address.pathname));
await status('Failed').waitFor();
await page.locator('#head dl').getByRole('link', { name: 'Open' }).click();
await page.waitForURL(failed);

// Find a callback that was not delivered, and send it again.
let answer = 410; // ends the attempts
const receiver = createServer((_, response) => response.writeHead(answer).end());
await new Promise(done => receiver.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${receiver.address().port}/orders`;
await page.goto(overview);
await live.waitFor();
await weft('call', 'RANDOM_UUID', '--callback-url', address);
await page.getByRole('link', { name: address }).waitFor(); // without a reload
await page.locator('.tiles', { hasText: '2 failed in 24 hours' }).waitFor();
await sound();
await page.getByRole('link', { name: address }).click();
await page.locator('#delivery', { hasText: 'Not delivered' }).waitFor();
await sound();
answer = 200;
await page.getByRole('button', { name: 'Send it now' }).click();
await page.waitForURL(/executions\/[0-9a-f-]{36}$/);
while (!await page.locator('#delivery .status.completed', { hasText: 'Delivered' }).count()) await page.reload();
await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name: 'Executions' }).click();
await page.locator('#rows tr', { hasText: 'RANDOM_UUID' }).getByText('Delivered').waitFor();
await sound();
receiver.close();
await page.getByRole('link', { name: 'Settings' }).click();
await page.waitForURL(/\/settings\//);
await sound();
await page.goto(failed);

// The keys are listed, and can be turned off.
await page.keyboard.press('?');
await page.getByRole('dialog').waitFor();
await page.getByLabel('Turn off keys of one letter').check();
await page.getByRole('button', { name: 'Close' }).click();
await page.keyboard.press('j');
assert.ok(!await page.evaluate(() => document.activeElement.matches('.open')));

// Run a workflow from its page with its form. A value that is not allowed is marked, and the others stay.
writeFileSync(join(folder, 'order.yaml'), `name: Order
inputSchema:
  type: object
  required: [amount, currency]
  properties:
    amount: {type: integer, minimum: 1, description: How much.}
    currency: {enum: [EUR, USD]}
    to: {type: object, required: [name], properties: {name: {type: string}}}
    pin: {type: string, x-secret: true}
components:
  start: {module: ON_API_CALLED}
  ask: {module: WAIT_FOR_SIGNAL, name: Somebody confirms, config: {name: confirmed, timeoutMs: 600000}}
  answer: {module: RESPOND, input: {amount: "{{start.amount}}", to: "{{start.to}}"}}
`);
await weft('workflows', 'push', join(folder, 'order.yaml'));
await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name: 'Workflows' }).click();
await page.getByRole('link', { name: 'Order', exact: true }).waitFor();
await sound();
await page.getByRole('link', { name: 'Order', exact: true }).click();
await page.locator('.node.warned', { hasText: 'Somebody confirms' }).click();
await page.locator('#component', { hasText: '"timeoutMs": 600000' }).waitFor();
await sound();
await page.getByLabel('amount').fill('0');
await page.getByLabel('currency').selectOption('EUR');
await page.locator('[name="/input/to/name"]').fill('Ada');
await page.getByLabel('pin').fill('1234');
await page.getByRole('button', { name: 'Run', exact: true }).click();
await page.locator('.faulty', { hasText: 'at least 1' }).waitFor();
await sound();
await page.getByLabel('amount').fill('7');
await page.getByRole('button', { name: 'Run', exact: true }).click();
await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
await page.getByRole('button', { name: 'Send confirmed' }).click();
await status('Completed').waitFor();
await page.locator('#values', { hasText: '"name": "Ada"' }).waitFor();
assert.ok(!(await page.content()).includes('1234'));

// Pause it.
await page.goto(runs.replace(/runs$/, 'workflows'));
await page.getByRole('link', { name: 'Order', exact: true }).click();
await page.getByRole('button', { name: 'Pause' }).click();
await page.locator('h1 + .status', { hasText: 'Paused' }).waitFor();
await page.getByText('Resume it to run it').waitFor();

// Call a module in the playground, and the same in the shell.
await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name: 'Playground' }).click();
await page.waitForURL(/\/playground$/);
await sound();
await page.getByLabel('Component').fill('hash');
await page.getByRole('button', { name: 'Filter' }).click();
await page.getByRole('link', { name: 'Hash', exact: true }).click();
await page.getByLabel('data').fill('`it\'s "quoted"` \\ $HOME');
await sound();
await page.getByRole('button', { name: 'Run', exact: true }).click();
await page.locator('#result .status', { hasText: 'Completed' }).waitFor();
await sound();
const called = JSON.parse(await page.locator('#result pre').innerText());
for (const [language, file, program] of languages) {
  const code = await page.locator(`#code-${language}`).textContent();
  const answer = await paste(code, file, program);
  assert.deepEqual(JSON.parse(answer.slice(answer.indexOf('{'))).output, called, language);
}
await browser.close();
