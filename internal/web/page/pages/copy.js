// Shows the copy buttons if the browser allows access to the clipboard, which it does only on https and on
// localhost.
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
