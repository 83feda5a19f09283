// Goes through the pages in one browser: what they look like, then what they send. At last a
// page of another server reads streams.
import { browser } from './shared.mjs';

await import('./look.mjs');
await import('./try.mjs');
await import('./eventsource.mjs');
await browser.close();
