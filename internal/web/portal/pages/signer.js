// Signs requests in the browser with a key that the reader enters. The secret stays in this page's
// memory: it is never stored and never sent, and no script can read it. But any script of this
// origin can sign requests with it through window.weftSigner until the page is closed. The API key
// itself is sent with each request, in X-Api-Key.
window.weftSigner = (() => {
  let held = null; // { apiKey, privateKey }
  let ahead = 0; // seconds to add to the browser's clock to get the service's time
  const changed = () => dispatchEvent(new CustomEvent('weft-signer'));

  // The service rejects timestamps in its future, so the signer uses the service's clock. A Date
  // header has whole seconds, so the difference may be up to a second too large: subtract one.
  async function setClock() {
    const date = Date.parse((await fetch('/healthz', { cache: 'no-store' })).headers.get('Date'));
    ahead = (Number.isNaN(date) ? 0 : Math.floor(date / 1000) - Math.floor(Date.now() / 1000)) - 1;
  }

  async function use(apiKey, apiSecret) {
    if (!globalThis.crypto?.subtle) throw new Error('Browsers can sign only on https pages and on localhost.');
    if (!/^ws_\S+$/.test(apiKey)) throw new Error('The API key must start with ws_.');
    let privateKey;
    try {
      const der = Uint8Array.from(atob(apiSecret), one => one.charCodeAt(0));
      privateKey = await crypto.subtle.importKey('pkcs8', der, { name: 'Ed25519' }, false, ['sign']);
    } catch (error) {
      throw new Error(error.name === 'NotSupportedError' ? 'This browser does not support Ed25519. Use a newer version.' : 'The API secret is not a private key. Expected PKCS#8 in base64.');
    }
    await setClock();
    held = { apiKey, privateKey };
    changed();
  }

  function forget() {
    held = null;
    changed();
  }

  // sign returns a copy of the request with the three headers, and the message that was signed.
  async function sign(request) {
    const { pathname, search } = new URL(request.url);
    const body = new Uint8Array(await request.clone().arrayBuffer());
    const timestamp = String(Math.floor(Date.now() / 1000) + ahead);
    const text = new TextEncoder();
    const start = text.encode(`${request.method}|${pathname}${search}|${timestamp}|`);
    const end = body.length ? body : text.encode('{}');
    const message = new Uint8Array(start.length + end.length);
    message.set(start);
    message.set(end, start.length);
    const signature = new Uint8Array(await crypto.subtle.sign('Ed25519', held.privateKey, message));
    const headers = new Headers(request.headers);
    headers.set('X-Api-Key', held.apiKey);
    headers.set('X-Sdk-Timestamp', timestamp);
    headers.set('X-Sdk-Signature', btoa(String.fromCharCode(...signature)));
    if (body.length && !headers.has('Content-Type')) headers.set('Content-Type', 'application/json');
    return { request: new Request(request.url, { method: request.method, headers, body: body.length ? body : undefined, signal: request.signal }), message };
  }

  // ask opens the dialog for the key and resolves to whether the signer has a key when it closes.
  // While the dialog is open, other calls wait for the same one.
  let asked = null;
  function ask() {
    asked ??= show().finally(() => { asked = null; });
    return asked;
  }

  function show() {
    const dialog = document.createElement('dialog');
    dialog.className = 'weft-dialog';
    dialog.setAttribute('aria-labelledby', 'weft-key-title');
    dialog.innerHTML = `<form class="weft-key" method="dialog" autocomplete="off">
<h2 id="weft-key-title">Sign in this browser</h2>
<p>The secret stays in this page's memory and is never sent. It is gone when you leave or reload the page. You can paste the whole of <code>credentials.json</code> into either field.</p>
<label>API key <input id="weft-api-key" placeholder="ws_…" autocomplete="off" spellcheck="false" required></label>
<label>API secret <input id="weft-api-secret" type="password" placeholder="MC4CAQAwBQYDK2VwBCIEI…" autocomplete="off" spellcheck="false" required></label>
<p class="fault" role="alert" hidden></p>
<div class="row"><button class="weft-button main" value="use">Use this key</button><button class="weft-button" value="forget" type="button" hidden>Forget the key</button><button class="weft-button" value="cancel" type="button">Cancel</button></div>
</form>`;
    document.body.append(dialog);
    const part = selector => dialog.querySelector(selector);
    const [apiKey, secret, fault] = [part('#weft-api-key'), part('#weft-api-secret'), part('.fault')];
    part('[value=forget]').hidden = !held;
    dialog.addEventListener('paste', event => {
      let credentials;
      try { credentials = JSON.parse(event.clipboardData.getData('text')); } catch { return; }
      if (!credentials?.apiKey || !credentials.apiSecret) return;
      event.preventDefault();
      [apiKey.value, secret.value] = [credentials.apiKey, credentials.apiSecret];
    });
    part('form').addEventListener('submit', async event => {
      event.preventDefault();
      try {
        await use(apiKey.value.trim(), secret.value.trim());
        dialog.close();
      } catch (error) {
        fault.textContent = error.message;
        fault.hidden = false;
      }
    });
    part('[value=forget]').addEventListener('click', () => { forget(); dialog.close(); });
    part('[value=cancel]').addEventListener('click', () => dialog.close());
    return new Promise(resolve => {
      dialog.addEventListener('close', () => {
        dialog.remove();
        resolve(!!held);
      });
      dialog.showModal();
      apiKey.focus();
    });
  }

  return { ask, forget, sign, use, get ready() { return !!held; }, get name() { return held ? `${held.apiKey.slice(0, 7)}…` : ''; } };
})();
