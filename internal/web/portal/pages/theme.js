// Sets the light or dark theme: that of the system, unless the reader has switched. It runs before the page
// is rendered, so that the page doesn't flash.
(() => {
  const name = 'weft-theme';
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const kept = () => { try { return localStorage.getItem(name); } catch { return null; } };
  const keep = theme => { try { localStorage.setItem(name, theme); } catch { /* for this page only */ } };
  const now = () => root.dataset.theme ?? (system.matches ? 'dark' : 'light');
  const tell = () => dispatchEvent(new CustomEvent('weft-theme', { detail: now() }));
  if (['light', 'dark'].includes(kept())) root.dataset.theme = kept();
  window.weftTheme = now;
  system.addEventListener('change', tell);
  addEventListener('DOMContentLoaded', () => {
    const button = document.querySelector('[data-theme-switch]');
    button.hidden = false;
    button.addEventListener('click', () => {
      root.dataset.theme = now() === 'dark' ? 'light' : 'dark';
      keep(root.dataset.theme);
      tell();
    });
  });
})();
