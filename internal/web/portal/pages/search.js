// Searches pages, sections, components and operations.
addEventListener('DOMContentLoaded', () => {
  const button = document.querySelector('[data-search]');
  button.hidden = false;
  if (/Mac|iPhone|iPad/.test(navigator.platform)) button.dataset.keys = '⌘ K';

  // The index is loaded on the first search, and again if that failed.
  let loading;
  const load = () => {
    loading ??= fetch('/docs/search.json').then(answer => answer.json());
    loading.catch(() => { loading = undefined; });
    return loading;
  };

  const split = text => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

  // Titles of pages weigh more than headings in them, and those more than text. The text of an
  // operation is its operationId, that of a guide is its beginning and other names for it.
  const titleWeights = { Section: 8, Code: 8 };
  const textWeights = { Operation: 10, Guide: 5, Section: 3 };

  // weigh returns 0 unless the entry contains every word: as a word, as the start of a word, or
  // anywhere in the title.
  const weigh = ({ kind, title, about, text = '' }, words) => {
    const places = [[titleWeights[kind] ?? 12, split(title)], [4, split(`${about} ${kind}`)], [textWeights[kind] ?? 2, text.split(' ')]];
    let sum = kind === 'Guide' ? 1 : 0;
    for (const word of words) {
      const weights = places.map(([weight, has]) => has.includes(word) ? weight + 1 : has.some(one => one.startsWith(word)) ? weight : 0);
      const best = Math.max(...weights, title.toLowerCase().includes(word) ? 1 : 0);
      if (!best) return 0;
      sum += best;
    }
    return sum;
  };

  // rank returns the best entries, at most one per page or section.
  const rank = (index, words) => {
    const places = new Set();
    return index.map(entry => [weigh(entry, words), entry]).filter(([weight]) => weight).sort(([a], [b]) => b - a)
      .filter(([, { path }]) => !places.has(path) && places.add(path)).slice(0, 12);
  };

  function open() {
    let index = [];
    const dialog = document.createElement('dialog');
    dialog.className = 'weft-dialog';
    dialog.setAttribute('aria-label', 'Search the documentation');
    dialog.innerHTML = '<input type="search" role="combobox" aria-expanded="true" aria-controls="weft-found" aria-autocomplete="list" placeholder="Search guides, operations, components, codes" autocomplete="off" spellcheck="false" aria-label="Search"><ul class="found" id="weft-found" role="listbox" aria-label="Results"></ul><p class="nothing" role="status" hidden>No results. Try fewer or other words.</p>';
    const [input, list, nothing] = dialog.children;
    let at = 0;
    const choose = next => {
      const links = [...list.querySelectorAll('a')];
      at = Math.max(0, Math.min(next, links.length - 1));
      links.forEach((link, i) => link.setAttribute('aria-selected', i === at));
      links[at]?.scrollIntoView({ block: 'nearest' });
      if (links[at]) input.setAttribute('aria-activedescendant', links[at].id);
      else input.removeAttribute('aria-activedescendant');
    };
    const show = () => {
      const words = split(input.value);
      const found = words.length ? rank(index, words) : [];
      list.replaceChildren(...(words.length ? found : index.filter(entry => entry.kind === 'Guide').map(entry => [1, entry])).map(([, entry], i) => {
        const [item, link, about] = ['li', 'a', 'small'].map(name => document.createElement(name));
        [link.href, link.textContent, about.textContent] = [entry.path, entry.title, `${entry.kind}${entry.about ? ` · ${entry.about}` : ''}`];
        link.append(about);
        item.setAttribute('role', 'presentation');
        link.setAttribute('role', 'option');
        link.id = `weft-found-${i}`;
        item.append(link);
        return item;
      }));
      nothing.hidden = !index.length || !words.length || found.length > 0;
      choose(0);
    };
    input.addEventListener('input', show);
    dialog.addEventListener('keydown', event => {
      if (event.key === 'ArrowDown') choose(at + 1);
      else if (event.key === 'ArrowUp') choose(at - 1);
      else if (event.key === 'Enter') list.querySelectorAll('a')[at]?.click();
      else return;
      event.preventDefault();
    });
    dialog.addEventListener('click', event => { if (event.target === dialog || event.target.closest('a')) dialog.close(); });
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    load().then(all => { index = all; show(); }, () => {
      nothing.textContent = 'The search index could not be loaded. Check your connection and try again.';
      nothing.hidden = false;
    });
    dialog.showModal();
    input.focus();
  }

  button.addEventListener('click', open);
  addEventListener('keydown', event => {
    const combined = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    const plain = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest('input, textarea, select, [contenteditable]');
    if (!combined && !plain || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    open();
  });
});
