// The token of an invitation stands in the fragment of the link, which browsers
// keep to themselves: into the form with it, and out of the address bar.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
if (token) {
  document.querySelector('input[name=token]').value = token;
  document.querySelector('#token').hidden = true;
  history.replaceState(null, '', location.pathname);
}
