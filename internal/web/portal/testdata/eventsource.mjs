// A standard EventSource, with nothing but its own rules for connecting again, reads streams to
// their end through a backend that signs.
import { browser, contextOf } from './shared.mjs';

const { BACKEND: backend } = process.env;
const page = await (await contextOf(browser)).newPage();
await page.goto(backend + '/page');
for (const stream of process.env.STREAMS.split(' ')) {
  const heard = await page.evaluate((path) => new Promise((resolve) => {
    const messages = [];
    const source = new EventSource(path);
    source.onmessage = (message) => messages.push(JSON.parse(message.data).status);
    source.onerror = () => source.readyState === EventSource.CLOSED && resolve(messages);
  }), stream);
  console.log(stream, heard.join(' '));
}
