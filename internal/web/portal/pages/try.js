// Sends requests from pages to the deployment that serves them, and shows the responses. It signs
// requests of signed operations in the browser, with the reader's key.
const readable = text => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

// exchange sends the request, and returns the response and the signed message. If the reader enters
// no key, it sends the request unsigned, and the service's response says what is missing.
async function exchange(request, signs) {
  let message;
  if (signs && (weftSigner.ready || await weftSigner.ask())) ({ request, message } = await weftSigner.sign(request));
  return { response: await fetch(request), message: message && new TextDecoder().decode(message) };
}

const streams = response => response.headers.get('Content-Type')?.startsWith('text/event-stream');

// read shows the body of a response. The stream of a waiting execution stays open, so read shows
// events as they arrive.
async function read(response, show) {
  if (!streams(response)) return show(readable(await response.text()));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  show(text);
  for (let part = await reader.read(); !part.done; part = await reader.read()) show(text += part.value);
}

const markup = {
  key: '<span class="soft" data-key></span><button type="button" class="weft-button" data-ask></button>',
  body: '<textarea spellcheck="false" rows="6" data-body></textarea>',
  result: '<div data-result hidden><div class="code" data-message hidden><p>Signed</p><pre tabindex="0"><code data-signed></code></pre></div><div class="code"><p>Response <span data-status></span></p><pre tabindex="0"><code data-answer></code></pre></div></div>',
  fault: '<p class="fault" role="alert" hidden></p>',
};

// wire makes the parts of a form work. compose returns the request for an abort signal; the parts
// show its response. Sending again closes the stream of the previous request.
function wire(place, signs, compose) {
  const part = name => place.querySelector(`[data-${name}]`);
  const [send, fault] = [part('send'), place.querySelector('.fault')];
  const show = () => {
    part('key').textContent = weftSigner.ready ? `signing as ${weftSigner.name}` : 'needs your key; its secret stays in this page';
    part('ask').textContent = weftSigner.ready ? 'Change' : 'Enter a key';
  };
  if (signs) {
    addEventListener('weft-signer', show);
    show();
    part('ask').addEventListener('click', () => weftSigner.ask());
  }
  let previous;
  send.addEventListener('click', async () => {
    previous?.abort();
    const current = previous = new AbortController();
    fault.hidden = true;
    send.disabled = true;
    try {
      const { response, message } = await exchange(compose(current.signal), signs);
      send.disabled = !streams(response);
      await read(response, text => {
        part('status').textContent = response.status;
        part('status').className = response.ok ? 'ok' : 'not-ok';
        part('answer').textContent = text;
        if (part('message')) {
          part('message').hidden = !message;
          part('signed').textContent = message ?? '';
        }
        if (part('result')) part('result').hidden = false;
      });
    } catch (error) {
      if (current.signal.aborted) return;
      fault.textContent = error.message;
      fault.hidden = false;
    } finally {
      if (current === previous) send.disabled = false;
    }
  });
}

const post = (target, body, signal) => new Request(target, { method: 'POST', body, signal, headers: { 'Content-Type': 'application/json' } });
const sample = { module: 'RANDOM_UUID', input: {}, config: {}, waitForMs: 15000 };

// The form in a guide that executes a component.
for (const place of document.querySelectorAll('[data-widget=call]')) {
  place.hidden = false;
  place.classList.add('try');
  place.innerHTML = `<div class="head"><b>Send it from here</b>${markup.key}</div>
<label class="soft">POST /v1/sdk/components ${markup.body}</label>
<p><button type="button" class="weft-button main" data-send>Sign and send</button></p>${markup.result}${markup.fault}`;
  const body = place.querySelector('[data-body]');
  body.value = JSON.stringify(sample, null, 2);
  wire(place, true, signal => post('/v1/sdk/components', body.value, signal));
}

// The sample of the home page: the response replaces the one that is shown.
for (const place of document.querySelectorAll('[data-widget=sample]')) {
  place.querySelector('[data-run]').hidden = false;
  wire(place, true, signal => post('/v1/sdk/components', JSON.stringify(sample), signal));
}

// The form of an operation in the reference, built when the reader opens it.
for (const place of document.querySelectorAll('[data-widget=request]')) {
  const { method, target, body = '' } = place.dataset;
  const signs = 'signed' in place.dataset;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'weft-button';
  button.textContent = 'Try it';
  button.setAttribute('aria-label', `Try it: ${method} ${target}`);
  place.append(button);
  place.hidden = false;
  button.addEventListener('click', () => {
    place.classList.add('try');
    place.innerHTML = `<div class="head"><b>Try it</b>${signs ? markup.key : ''}</div>
<label class="soft"><span data-method></span> <input spellcheck="false" autocomplete="off" data-to></label>
${method === 'GET' ? '' : `<label class="soft">Body ${markup.body}</label>`}
<p><button type="button" class="weft-button main" data-send>${signs ? 'Sign and send' : 'Send'}</button></p>${markup.result}${markup.fault}`;
    const [to, text] = [place.querySelector('[data-to]'), place.querySelector('[data-body]')];
    place.querySelector('[data-method]').textContent = method;
    to.value = target;
    if (text) text.value = body;
    wire(place, signs, signal => {
      const { origin, pathname, search } = new URL(to.value, location.origin);
      if (origin !== location.origin) throw new TypeError('This page can send requests only to its own deployment.');
      const headers = text?.value ? { 'Content-Type': 'application/json' } : {};
      return new Request(pathname + search, { method, headers, signal, body: text?.value || undefined });
    });
    to.focus();
  });
}
