// Sends requests from pages to the deployment that serves them. Signed operations are signed with
// the reader's key, in the browser.
const readable = text => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

// Send request, and return the answer with the message that was signed, or without one if the
// reader gave no key: then the service says what is missing.
async function exchange(request, signs) {
  let message;
  if (signs && (weftSigner.ready || await weftSigner.ask())) ({ request, message } = await weftSigner.sign(request));
  const answer = await fetch(request);
  return { status: answer.status, ok: answer.ok, text: readable(await answer.text()), message: message && new TextDecoder().decode(message) };
}

const markup = {
  key: '<span class="soft" data-key></span><button type="button" class="weft-button" data-ask></button>',
  body: '<textarea spellcheck="false" rows="6" data-body></textarea>',
  result: '<div data-result hidden><div class="code" data-message hidden><p>Signed</p><pre tabindex="0"><code data-signed></code></pre></div><div class="code"><p>Answer <span data-status></span></p><pre tabindex="0"><code data-answer></code></pre></div></div>',
  fault: '<p class="fault" role="alert" hidden></p>',
};

// wire makes the parts of a form work. compose returns the request; the parts show its answer.
function wire(place, signs, compose) {
  const part = name => place.querySelector(`[data-${name}]`);
  const [send, fault] = [part('send'), place.querySelector('.fault')];
  const show = () => {
    part('key').textContent = weftSigner.ready ? `signing as ${weftSigner.name}` : 'needs your key, which stays in this page';
    part('ask').textContent = weftSigner.ready ? 'Change' : 'Give a key';
  };
  if (signs) {
    addEventListener('weft-signer', show);
    show();
    part('ask').addEventListener('click', () => weftSigner.ask());
  }
  send.addEventListener('click', async () => {
    fault.hidden = true;
    send.disabled = true;
    try {
      const answer = await exchange(compose(), signs);
      part('status').textContent = answer.status;
      part('status').className = answer.ok ? 'ok' : 'not-ok';
      part('answer').textContent = answer.text;
      if (part('message')) {
        part('message').hidden = !answer.message;
        part('signed').textContent = answer.message ?? '';
      }
      if (part('result')) part('result').hidden = false;
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    } finally {
      send.disabled = false;
    }
  });
}

const post = (target, body) => new Request(target, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
const sample = { module: 'RANDOM_UUID', input: {}, config: {}, waitForMs: 15000 };

// The form in a guide that executes a component.
for (const place of document.querySelectorAll('[data-widget=call]')) {
  place.hidden = false;
  place.classList.add('try');
  place.innerHTML = `<div class="head"><b>Make it here</b>${markup.key}</div>
<label class="soft">POST /v1/sdk/components ${markup.body}</label>
<p><button type="button" class="weft-button main" data-send>Sign and send</button></p>${markup.result}${markup.fault}`;
  const body = place.querySelector('[data-body]');
  body.value = JSON.stringify(sample, null, 2);
  wire(place, true, () => post('/v1/sdk/components', body.value));
}

// The sample of the home page: its answer takes the place of the one that is shown.
for (const place of document.querySelectorAll('[data-widget=sample]')) {
  place.querySelector('[data-run]').hidden = false;
  wire(place, true, () => post('/v1/sdk/components', JSON.stringify(sample)));
}

// The form of an operation in the reference, made when the reader asks for it.
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
    wire(place, signs, () => {
      const { origin, pathname, search } = new URL(to.value, location.origin);
      if (origin !== location.origin) throw new TypeError('This page can send requests only to its own deployment.');
      const headers = text?.value ? { 'Content-Type': 'application/json' } : {};
      return new Request(pathname + search, { method, headers, body: text?.value || undefined });
    });
    to.focus();
  });
}
