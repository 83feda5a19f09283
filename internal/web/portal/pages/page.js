// Optional features of the pages. The pages are complete without it.

// Replace the origin in commands with that of this deployment. Output of weft dev keeps its own.
const local = 'http://127.0.0.1:8080';
if (location.origin !== local) {
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (node.data.includes(local) && node.parentElement.closest('code, pre') && !node.parentElement.closest('[data-language=text]')) node.data = node.data.replaceAll(local, location.origin);
}

// Copy only the commands of a terminal session, not its output.
function copied(box) {
  const typed = [...box.querySelectorAll('.command')].map(one => one.textContent.replace(/^\$ /, ''));
  return typed.length ? typed.join('\n') : box.querySelector('pre').textContent.replace(/\n$/, '');
}
for (const box of navigator.clipboard ? document.querySelectorAll('.code') : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(copied(box));
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  box.append(button);
}

// Select the last chosen language in all tabs, on this page and on the next ones.
const tabs = [...document.querySelectorAll('.tabs > input')];
const label = one => one.nextElementSibling.textContent;
const select = language => { for (const one of tabs) if (label(one) === language) one.checked = true; };
const chosen = 'weft-language';
try { select(localStorage.getItem(chosen)); } catch { /* storage is disabled */ }
for (const input of tabs) {
  input.addEventListener('change', () => {
    const top = input.parentElement.getBoundingClientRect().top;
    select(label(input));
    try { localStorage.setItem(chosen, label(input)); } catch { /* for this page only */ }
    scrollBy({ top: input.parentElement.getBoundingClientRect().top - top, behavior: 'instant' });
  });
}

const side = document.querySelector('.side details');
if (side && matchMedia('(min-width: 52.01rem)').matches) {
  side.open = true;
  const current = side.querySelector('[aria-current]');
  if (current) side.parentElement.scrollTop = current.offsetTop - side.parentElement.clientHeight / 2;
}

// Highlight the section in view.
const links = new Map([...document.querySelectorAll('.toc a')].map(link => [link.hash.slice(1), link]));
if (links.size) {
  const sections = [...document.querySelectorAll('.prose > [id]')].filter(one => links.has(one.id));
  const mark = () => {
    const here = sections.findLast(one => one.getBoundingClientRect().top < 120) ?? sections[0];
    for (const [id, link] of links) link.classList.toggle('here', id === here.id);
  };
  addEventListener('scroll', mark, { passive: true });
  mark();
}

// Entries that fold. A link to an entry opens it, also if the URL already has its anchor. Browsers
// open a closed entry when they find text in it.
const entries = document.querySelectorAll('details.entry');
if (entries.length) {
  const reveal = hash => {
    const entry = document.getElementById(hash.slice(1))?.closest('details.entry');
    if (entry) entry.open = true;
  };
  addEventListener('hashchange', () => reveal(location.hash));
  document.addEventListener('click', event => {
    const link = event.target.closest('a[href]');
    if (link?.pathname === location.pathname) reveal(link.hash);
  });
  reveal(location.hash);

  const button = document.createElement('button');
  const closed = () => [...entries].some(one => !one.open);
  const tell = () => { button.textContent = closed() ? 'Open all entries' : 'Close all entries'; };
  button.type = 'button';
  button.className = 'weft-button';
  button.addEventListener('click', () => {
    const open = closed();
    for (const one of entries) one.open = open;
  });
  for (const one of entries) one.addEventListener('toggle', tell);
  tell();
  const place = document.querySelector('[data-widget=entries]');
  place.append(button);
  place.hidden = false;
}

const filter = document.querySelector('#filter');
if (filter) {
  filter.hidden = false;
  filter.addEventListener('input', () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const family of document.querySelectorAll('.family')) {
      let here = 0;
      for (const card of family.querySelectorAll('li')) {
        const text = card.dataset.words.toLowerCase();
        card.hidden = !words.every(word => text.includes(word));
        here += !card.hidden;
      }
      family.hidden = !here;
      found += here;
    }
    document.querySelector('#none').hidden = found > 0;
  });
}
