// The browser of the tests: a Chromium on the PATH, or the one installed in this folder.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import playwright from 'playwright-core';

async function executable() {
  for (const dir of process.env.PATH.split(delimiter))
    for (const name of ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'])
      if (existsSync(join(dir, name))) return join(dir, name);
  const { default: chromium } = await import('@sparticuz/chromium');
  chromium.setGraphicsMode = false;
  return chromium.executablePath();
}

// The timeout of every wait in a script: the time that the test has left.
const patience = Number(process.env.PATIENCE_MS);

export const launch = async (...args) => playwright.chromium.launch({
  executablePath: await executable(), args: ['--no-sandbox', '--disable-gpu', '--headless=shell', ...args], timeout: patience,
});

// contextOf opens a separate window, with separate cookies.
export async function contextOf(browser, options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(patience);
  return context;
}

// picture saves screenshots of a page, wide and narrow, light and dark.
export async function picture(page, folder, name) {
  if (!folder) return;
  for (const [size, width, height] of [['wide', 1440, 900], ['narrow', 390, 844]])
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: join(folder, `${name}-${size}-${colorScheme}.png`), fullPage: true });
    }
  await page.setViewportSize({ width: 1440, height: 900 });
}
