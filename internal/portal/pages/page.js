// What makes the pages handier; all of them are whole without it.
for (const box of navigator.clipboard ? document.querySelectorAll('.code') : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(box.querySelector('pre').textContent);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  box.append(button);
}

const side = document.querySelector('.side details');
if (side && matchMedia('(min-width: 52.01rem)').matches) {
  side.open = true;
  side.querySelector('[aria-current]')?.scrollIntoView({ block: 'center' });
  scrollTo(0, 0);
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
