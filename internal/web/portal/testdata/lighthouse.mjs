// Measures pages with Lighthouse, as on a desktop. Prints a line of JSON for each page: the median of
// three runs in each category, and the audits that failed.
import { join } from 'node:path';

const { TOOLS, BASE_URL, PAGES } = process.env;
const { launch } = await import(join(TOOLS, 'browser.mjs'));
const { default: lighthouse, desktopConfig } = await import(join(TOOLS, 'lighthouse/node_modules/lighthouse/core/index.js'));

const port = 9222 + (process.pid % 1000);
const browser = await launch(`--remote-debugging-port=${port}`);
const categories = ['accessibility', 'best-practices', 'seo', 'performance'];
try {
  for (const page of PAGES.split(' ')) {
    const runs = [];
    for (let i = 0; i < 3; i++) {
      const { lhr } = await lighthouse(BASE_URL + page, { port, logLevel: 'error', onlyCategories: categories }, desktopConfig);
      if (lhr.runtimeError) throw new Error(`${page}: ${lhr.runtimeError.message}`);
      runs.push(lhr);
    }
    const median = (category) => runs.map((run) => Math.round(100 * run.categories[category].score)).sort((a, b) => a - b)[1];
    const failed = Object.values(runs[2].audits).filter((audit) => audit.score === 0 && audit.scoreDisplayMode === 'binary').map((audit) => audit.id);
    console.log(JSON.stringify({ page, scores: Object.fromEntries(categories.map((name) => [name, median(name)])), failed }));
  }
} finally {
  await browser.close();
}
