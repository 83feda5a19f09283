// Buttons that copy what they name. Where a browser does not give its clipboard away,
// which it does on https and on this machine only, they do not appear.
if (navigator.clipboard) {
  for (const button of document.querySelectorAll('button[data-copy]')) {
    button.hidden = false;
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        button.textContent = 'Copied';
      } catch {
        button.textContent = 'Select it and copy';
      }
    });
  }
}
