// Keeps a page up to date and adds keys. Without this script, every page works after it is reloaded.
(() => {
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Times of the page, in words.
  const units = [[172800, 86400, 'days'], [3600, 3600, 'h'], [60, 60, 'min'], [10, 1, 's']];
  function tell(time) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const unit = units.find(([from]) => seconds >= from);
    time.textContent = unit ? `${Math.floor(seconds / unit[1])} ${unit[2]} ago` : 'moments ago';
  }
  setInterval(() => all('time[data-ago]').forEach(tell), 15000);

  const copies = () => {
    if (navigator.clipboard) for (const button of all('button[data-copy]')) button.hidden = false;
  };
  copies();
  document.addEventListener('click', async event => {
    const button = event.target.closest?.('button[data-copy]');
    if (button) {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = 'Copied';
    }
    const grid = event.target.closest?.('svg[data-grid]');
    if (grid) {
      const { left, top } = grid.getBoundingClientRect();
      const cell = Number(grid.dataset.cell);
      const item = Math.floor((event.clientY - top) / cell) * Number(grid.dataset.columns) + Math.floor((event.clientX - left) / cell);
      if (event.target !== grid) location.assign(`${grid.dataset.grid}${item}#component`);
    }
  });

  // Replaces what has changed. A part in which someone types stays as it is, and so do open details
  // and the place to which a part is scrolled.
  function replace(now, then) {
    const typing = now.contains(document.activeElement) && document.activeElement.matches('input, textarea, select');
    if (typing || now.outerHTML === then.outerHTML) return;
    for (const open of all('details[open][id]', now)) one('#' + open.id, then)?.setAttribute('open', '');
    const places = all('.graph, .grid, pre', now).map(part => [part.scrollLeft, part.scrollTop]);
    const focus = document.activeElement?.getAttribute?.('href');
    const focused = now.contains(document.activeElement);
    now.replaceWith(then);
    all('.graph, .grid, pre', then).forEach((part, i) => { if (places[i]) [part.scrollLeft, part.scrollTop] = places[i]; });
    if (focused && focus) all('a', then).find(link => link.getAttribute('href') === focus)?.focus();
  }

  // Rows of a list change in place. New rows are announced, so that nothing moves under the pointer.
  function update(page) {
    for (const then of all('[data-live]', page)) {
      const now = document.getElementById(then.id);
      if (now) replace(now, then);
    }
    const rows = one('#rows', page);
    if (!rows || !one('#rows')) return;
    let newer = 0;
    for (const then of all('tr', rows)) {
      const now = document.getElementById(then.id);
      if (now) replace(now, then);
      else newer++;
    }
    if (newer && !new URLSearchParams(location.search).has('cursor')) {
      one('#newer').hidden = false;
      const thing = one('#newer').dataset.thing;
      one('#newer button').textContent = newer === 1 ? `Show 1 new ${thing}` : `Show ${newer} new ${thing}s`;
    }
  }
  one('#newer button')?.addEventListener('click', () => location.reload());

  // Says that the session has ended. What is on the page, such as typed text, stays.
  function over() {
    const line = document.createElement('p');
    line.className = 'fault';
    line.setAttribute('role', 'alert');
    const link = document.createElement('a');
    link.href = location.href;
    link.textContent = 'Sign in again';
    line.append('Your session has ended, so this page is no longer kept up to date. ', link);
    one('main').prepend(line);
  }

  let reading = false, again = false;
  async function refresh() {
    if (reading) { again = true; return; }
    reading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: 'text/html' } });
      if (answer.status === 401) return over();
      if (answer.ok) update(new DOMParser().parseFromString(await answer.text(), 'text/html'));
      copies();
    } catch { /* the next event tries again */ }
    await new Promise(done => setTimeout(done, 700));
    reading = false;
    if (again) { again = false; refresh(); }
  }

  const follow = document.body.dataset.follow;
  if (follow) {
    const source = new EventSource(follow);
    const shown = one('#live');
    source.onopen = () => { if (shown) shown.hidden = false; };
    source.onerror = () => { if (shown) shown.hidden = true; };
    source.onmessage = refresh;
    for (const name of ['progress', 'resync']) source.addEventListener(name, refresh);
    addEventListener('pagehide', () => source.close());
    addEventListener('pageshow', event => { if (event.persisted) location.reload(); });
  }

  // Keys.
  const dialog = one('#keys'), off = one('#keys-off');
  const read = () => { try { return localStorage.getItem('weft-keys') === 'off'; } catch { return false; } };
  off.checked = read();
  off.addEventListener('change', () => { try { localStorage.setItem('weft-keys', off.checked ? 'off' : 'on'); } catch { /* for this page only */ } });
  const base = one('.top .mark').getAttribute('href');
  const settings = one('.top nav a[href^="/settings"]').getAttribute('href');
  let before = '';
  function step(by) {
    const links = all('[data-row] .open');
    const at = links.indexOf(document.activeElement);
    links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  }
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') one('.menu[open]')?.removeAttribute('open');
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, textarea, select') || off.checked) return;
    const keys = before + event.key;
    before = event.key === 'g' ? 'g' : '';
    switch (keys) {
      case 'j': step(1); break;
      case 'k': step(-1); break;
      case '/': if (one('#filter')) { event.preventDefault(); one('#filter').focus(); } break;
      case '?': dialog.showModal(); break;
      case 'go': location.assign(base); break;
      case 'gr': location.assign(base + '/runs'); break;
      case 'ge': location.assign(base + '/executions'); break;
      case 'gw': location.assign(base + '/workflows'); break;
      case 'gp': location.assign(base + '/playground'); break;
      case 'gs': location.assign(settings); break;
    }
  });
})();
