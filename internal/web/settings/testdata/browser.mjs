// Drives a real browser through the pages as people use them, and prints what it
// made. The addresses and the owner come by the environment; a Chromium on the
// PATH is used, or the one of internal/tools.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { BASE_URL: base, EMAIL: email, PASSWORD: password, TOOLS: tools, PICTURES: pictures } = process.env;
const { launch, contextOf, picture: keep } = await import(pathToFileURL(join(tools, 'browser.mjs')));
const browser = await launch();
const picture = (page, name) => keep(page, pictures, name);

// A page whose requests and errors are all checked.
async function open(options = {}) {
  const context = await contextOf(browser, options);
  const page = await context.newPage();
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== 'data:' && !page.elsewhere) assert.equal(origin, base, `the page asked ${request.url()}`);
  });
  page.on('console', message => assert.ok(message.type() !== 'error' || /status of 4/.test(message.text()), message.text()));
  page.on('pageerror', error => assert.fail(error));
  return page;
}

async function signIn(page, email, password) {
  await page.goto(base + '/settings');
  await page.fill('input[name=email]', email);
  await page.fill('input[name=password]', password);
  await page.click('button.main');
}

// Content that overflows the window can't be reached on a phone.
async function fits(page) {
  await page.setViewportSize({ width: 390, height: 844 });
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `the page is ${over} pixels wider than a narrow window`);
  await page.setViewportSize({ width: 1280, height: 900 });
}

const text = (page, selector) => page.locator(selector).innerText();
const key = (page, word) => page.locator('.keys tr', { hasText: word });
const row = (page, word) => page.locator('section:not(#events) tr', { hasText: word });

// Signing in.
const owner = await open();
await signIn(owner, email, 'not the password');
assert.match(await text(owner, '[role=alert]'), /not right/);
assert.equal(await owner.inputValue('input[name=email]'), email);
await picture(owner, 'sign-in');
await signIn(owner, email, password);
await owner.waitForURL(/\/console\/[^/]+$/);
await owner.getByRole('link', { name: 'Settings' }).click();
await owner.waitForURL(/\/settings\/workspaces\//);
const workspace = owner.url();
assert.match(await text(owner, '#workspace'), /Enterprise[^]*Paid credits\s+1,000,000/i);
assert.deepEqual((await owner.context().cookies()).map(c => [c.name, c.httpOnly, c.sameSite]), [['weft_session', true, 'Lax'], ['weft_device', true, 'Lax']]);
assert.equal(await owner.evaluate(() => document.cookie), '');

// Create a key, which is shown once.
await owner.fill('#new input[name=label]', 'Checkout <b>&"');
await owner.click('#new button');
const apiKey = await text(owner, '#api-key'), apiSecret = await text(owner, '#api-secret');
assert.match(await text(owner, '#new-key'), /Checkout <b>&"/);
assert.deepEqual(JSON.parse(await text(owner, '#credentials')), { baseUrl: base, workspaceId: workspace.split('/').pop(), apiKey, apiSecret });
assert.equal(await owner.evaluate(() => document.activeElement.id), 'new-key', 'what is shown once is not in view');
await owner.context().grantPermissions(['clipboard-read', 'clipboard-write']);
await owner.click('[data-copy=credentials]');
await owner.getByText('Copied').waitFor();
assert.equal(await owner.evaluate(() => navigator.clipboard.readText()), await text(owner, '#credentials'));
await picture(owner, 'new-key');
await fits(owner);

// Reloading resubmits the form, which doesn't create a second key.
await owner.reload();
assert.match(await text(owner, '[role=alert]'), /already created/);
assert.equal(await row(owner, 'Checkout <b>&"').count(), 1);
await owner.goto(workspace);
assert.ok(!(await owner.content()).includes(apiSecret) && !(await owner.content()).includes(apiKey), 'a key is shown twice');

// The page warns before the last key goes.
const warning = owner.getByText('No other key stays active');
assert.equal(await warning.count(), 1);

// Revoke a second key.
await owner.fill('#new input[name=label]', 'Doomed');
await owner.click('#new button');
const doomed = { apiKey: await text(owner, '#api-key'), apiSecret: await text(owner, '#api-secret') };
await owner.goto(workspace);
assert.equal(await warning.count(), 0);
await key(owner, 'Doomed').getByText('Revoke', { exact: true }).click();
await key(owner, 'Doomed').getByText('Revoke at once').click();
await owner.getByText('Revoked and expired keys (1)').click();
await key(owner, 'Doomed').getByText('revoked').waitFor();

// Rotate a third key.
await owner.fill('#new input[name=label]', 'Turned');
await owner.click('#new button');
await owner.goto(workspace);
await key(owner, 'Turned').getByText('Rotate').click();
await picture(owner, 'rotate');
await fits(owner);
await key(owner, 'Turned').getByText('Create the new key').click();
assert.match(await text(owner, '#new-key'), /replaces the key ws_.*works until \d+ \w+ \d{4}, \d\d:\d\d UTC/);
await picture(owner, 'rotated');
await owner.reload();
assert.match(await text(owner, '#keys [role=alert]'), /already created/);
await owner.goto(workspace);
assert.equal(await key(owner, 'Turned').count(), 2);
assert.match(await key(owner, 'Turned').last().innerText(), /expires/);

// A rejected form keeps what was typed and shows the error next to it.
await owner.fill('#new input[name=label]', ' ');
await owner.click('#new button');
assert.match(await text(owner, '#keys [role=alert]'), /1 to 200 characters/);
assert.equal(await owner.inputValue('#new input[name=label]'), ' ');
assert.ok(await owner.evaluate(() => document.querySelector('#keys [role=alert]').getBoundingClientRect().bottom < innerHeight), 'the message is out of sight');
await picture(owner, 'refused');
await owner.goto(owner.url());
assert.equal(owner.url(), workspace);

// Invite a person, who accepts with the link.
await owner.fill('#invite input[name=email]', 'ada@example.org');
await owner.click('#invite button');
const link = await text(owner, '#link');
await picture(owner, 'invitation-made');
await owner.reload();
assert.match(await text(owner, '#members [role=alert]'), /already created/);
const ada = await open();
await ada.goto(link);
await ada.waitForFunction(() => location.hash === '');
await ada.locator('input[name=password]').waitFor();
assert.match(await text(ada, 'main'), /Acme[^]*Editor[^]*Grace Hopper \(owner@example.org\)/i);
assert.equal(await ada.inputValue('input[name=email]'), 'ada@example.org');
await picture(ada, 'invitation');
await fits(ada);
await ada.fill('input[name=name]', 'Ada Lovelace');
await ada.fill('input[name=password]', 'a long enough password');
await ada.click('button.main');
await ada.waitForURL(workspace);
assert.match(await text(ada, '#workspace'), /editor/i);
assert.equal(await ada.locator('#new, #invite, #members select, #events, #keys .actions').count(), 0, 'an editor sees forms of admins');

// The link can't be used again.
const late = await open();
await late.goto(link);
assert.match(await text(late, '[role=alert]'), /was already used/);
assert.equal(await late.locator('input').count(), 0);
await picture(late, 'invitation-over');
await late.getByText('sign in').click();
await late.locator('input[name=password]').waitFor();

// The role changes, and the person is removed.
await owner.goto(workspace);
await row(owner, 'ada@example.org').locator('select').selectOption('admin');
await row(owner, 'ada@example.org').getByText('Change').click();
await owner.waitForURL(/#members$/);
await ada.reload();
assert.equal(await ada.locator('#new').count(), 1);
await picture(owner, 'settings');
await fits(owner);
await row(owner, 'ada@example.org').locator('summary').click();
await row(owner, 'ada@example.org').getByText('Remove Ada Lovelace').click();
await owner.waitForURL(/#members$/);
assert.equal(await row(owner, 'ada@example.org').count(), 0);
await ada.goto(workspace);
assert.match(await text(ada, '[role=alert]'), /no workspace/);
await ada.goto(base + '/settings');
assert.match(await text(ada, 'main'), /you are not a member of any workspace/);
await picture(ada, 'nowhere');

// The last owner can't be removed, and the page shows why.
const change = row(owner, email);
assert.match(await change.innerText(), /The last owner/);
await change.locator('select').selectOption('viewer');
await change.getByRole('button', { name: 'Change' }).click();
assert.match(await text(owner, '[role=alert]'), /at least one owner/);

// A page of another site cannot send the forms.
const elsewhere = createServer((_, answer) => {
  answer.setHeader('Content-Type', 'text/html');
  answer.end(`<form method="post" action="${base}/settings/sign-out"><button>Win</button></form>`);
}).listen(0, '127.0.0.1');
await new Promise(done => elsewhere.once('listening', done));
owner.elsewhere = true;
await owner.goto(`http://127.0.0.1:${elsewhere.address().port}/`);
await owner.click('button');
assert.match(await text(owner, '[role=alert]'), /another site/);
elsewhere.close();
owner.elsewhere = false;
await owner.goto(workspace);
assert.match(await text(owner, '#workspace'), /Enterprise/i);

// Signing out.
await owner.locator('.menu summary').click();
await owner.getByText('Sign out').click();
await owner.locator('input[name=password]').waitFor();
assert.deepEqual((await owner.context().cookies()).map(c => c.name), ['weft_device']);
await owner.goto(workspace);
await owner.locator('input[name=password]').waitFor();

await browser.close();
console.log(JSON.stringify({ kept: { apiKey, apiSecret }, doomed }));
