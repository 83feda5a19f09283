// Goes through the pages in one browser: what they look like, then what they send.
import { browser } from './shared.mjs';

await import('./look.mjs');
await import('./try.mjs');
await browser.close();
