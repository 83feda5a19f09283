// Finds pages, sections, components and operations by their words.
addEventListener('DOMContentLoaded', () => {
  const button = document.querySelector('[data-search]');
  button.hidden = false;

  // What can be found is loaded when it is first looked for, and again if that failed.
  let loading;
  const load = () => {
    loading ??= fetch('/docs/search.json').then(answer => answer.json());
    loading.catch(() => { loading = undefined; });
    return loading;
  };

  const weigh = (entry, words) => {
    const [title, all] = [entry.title.toLowerCase(), `${entry.title} ${entry.about} ${entry.kind}`.toLowerCase()];
    if (!words.every(word => all.includes(word))) return 0;
    return 1 + words.reduce((sum, word) => sum + (title.startsWith(word) ? 4 : title.includes(word) ? 2 : 0), 0) + (entry.kind === 'Guide' ? 1 : 0);
  };

  function open() {
    let index = [];
    const dialog = document.createElement('dialog');
    dialog.className = 'weft-dialog';
    dialog.setAttribute('aria-label', 'Search the documentation');
    dialog.innerHTML = '<input type="search" placeholder="Search guides, operations, components, codes" autocomplete="off" spellcheck="false" aria-label="Search"><ul class="found"></ul><p class="nothing" hidden>Nothing has these words.</p>';
    const [input, list, nothing] = dialog.children;
    let at = 0;
    const choose = next => {
      const links = [...list.querySelectorAll('a')];
      at = Math.max(0, Math.min(next, links.length - 1));
      links.forEach((link, i) => link.setAttribute('aria-selected', i === at));
      links[at]?.scrollIntoView({ block: 'nearest' });
    };
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = index.map(entry => [weigh(entry, words), entry]).filter(([weight]) => weight).sort(([a], [b]) => b - a).slice(0, 12);
      list.replaceChildren(...(words.length ? found : index.filter(entry => entry.kind === 'Guide').map(entry => [1, entry])).map(([, entry]) => {
        const [item, link, about] = ['li', 'a', 'small'].map(name => document.createElement(name));
        [link.href, link.textContent, about.textContent] = [entry.path, entry.title, `${entry.kind}${entry.about ? ` · ${entry.about}` : ''}`];
        link.append(about);
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
      nothing.textContent = 'The search cannot be loaded now.';
      nothing.hidden = false;
    });
    dialog.showModal();
    input.focus();
  }

  button.addEventListener('click', open);
  addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.target.closest('input, textarea, select, [contenteditable]')) return;
    event.preventDefault();
    open();
  });
});
