// The form in a guide that sends a call.
for (const place of document.querySelectorAll('[data-widget=call]')) {
  place.hidden = false;
  place.classList.add('try');
  place.innerHTML = `<div class="head"><b>Make it here</b><span class="soft" data-key></span><button type="button" class="weft-button" data-ask></button></div>
<label class="soft">POST /v1/sdk/components <textarea spellcheck="false" rows="6" aria-label="The body of the request"></textarea></label>
<p><button type="button" class="weft-button main" data-send>Sign and send</button></p>
<div data-result hidden><div class="code"><p>Signed</p><pre tabindex="0"><code data-signed></code></pre></div><div class="code"><p>Answer <span data-status></span></p><pre tabindex="0"><code data-answer></code></pre></div></div>
<p class="fault" role="alert" hidden></p>`;
  const readable = text => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };
  const part = name => place.querySelector(`[data-${name}]`);
  const body = place.querySelector('textarea');
  const fault = place.querySelector('.fault');
  body.value = JSON.stringify({ module: 'RANDOM_UUID', input: {}, config: {}, waitForMs: 15000 }, null, 2);
  const show = () => {
    part('key').textContent = weftSigner.ready ? `signing as ${weftSigner.name}` : 'needs your key, which stays in this page';
    part('ask').textContent = weftSigner.ready ? 'Change' : 'Give a key';
  };
  addEventListener('weft-signer', show);
  show();
  part('ask').addEventListener('click', () => weftSigner.ask());
  part('send').addEventListener('click', async () => {
    fault.hidden = true;
    if (!weftSigner.ready && !await weftSigner.ask()) return;
    part('send').disabled = true;
    part('result').hidden = true;
    try {
      const { request, message } = await weftSigner.sign(new Request('/v1/sdk/components', { method: 'POST', body: body.value, headers: { 'Content-Type': 'application/json' } }));
      const answer = await fetch(request);
      part('signed').textContent = new TextDecoder().decode(message);
      part('status').textContent = answer.status;
      part('status').className = answer.ok ? 'ok' : 'not-ok';
      part('answer').textContent = readable(await answer.text());
      part('result').hidden = false;
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    } finally {
      part('send').disabled = false;
    }
  });
}
