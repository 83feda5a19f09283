// Renders the reference and signs the requests that are sent from it.
const signed = path => path.startsWith('/v1/sdk/') && path !== '/v1/sdk/signature-check';

// Replace the origin in commands with that of this deployment.
const content = fetch('/docs/reference.json').then(answer => {
  if (!answer.ok) throw new Error(`the document is answered ${answer.status}`);
  return answer.text();
}).then(text => text.replaceAll('http://127.0.0.1:8080', location.origin));

content.then(content => Scalar.createApiReference('#reference', {
  content,
  servers: [{ url: location.origin, description: 'The deployment that serves this page.' }],
  theme: 'none',
  forceDarkModeState: weftTheme(),
  hideDarkModeToggle: true,
  withDefaultFonts: false,
  telemetry: false,
  showDeveloperTools: 'never',
  hideClientButton: true,
  documentDownloadType: 'none',
  persistAuth: false,
  hideSearch: true,
  hiddenClients: true, // they don't sign; the document has samples that do
  agent: { disabled: true },
  mcp: { disabled: true },
  customFetch: send,
  onLoaded: () => document.querySelector('.loading')?.remove(),
}), () => { document.querySelector('.loading').firstChild.data = 'The reference could not be loaded. It is also available '; });

// send signs a request with the reader's key and sends it.
async function send(input, init) {
  let request = new Request(input, init);
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin) throw new TypeError('This page can send requests only to its own deployment.');
  if (signed(pathname) && (weftSigner.ready || await weftSigner.ask())) ({ request } = await weftSigner.sign(request));
  return fetch(request);
}

// The reference looks at its setting once, and puts its classes back when the system changes;
// what is shown is what the switch says.
const body = document.body.classList;
function follow() {
  const dark = weftTheme() === 'dark';
  if (body.contains('dark-mode') === dark && body.contains('light-mode') === !dark) return;
  body.toggle('dark-mode', dark);
  body.toggle('light-mode', !dark);
}
new MutationObserver(follow).observe(document.body, { attributes: true, attributeFilter: ['class'] });
addEventListener('weft-theme', follow);

const button = document.querySelector('[data-signer]');
const show = () => {
  button.innerHTML = weftSigner.ready ? '✓<span></span>' : 'Sign<span>requests</span>';
  if (weftSigner.ready) button.lastChild.textContent = weftSigner.name;
  button.setAttribute('aria-label', weftSigner.ready ? `Requests are signed by ${weftSigner.name}` : 'Sign requests');
  button.toggleAttribute('data-ready', weftSigner.ready);
};
addEventListener('weft-signer', show);
button.hidden = false;
show();
button.addEventListener('click', () => weftSigner.ask());
