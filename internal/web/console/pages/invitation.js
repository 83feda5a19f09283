// The token of an invitation stands in the fragment of the link, which browsers
// keep to themselves: out of the address bar, and by the form to what it stands for.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
if (token) {
  const form = document.querySelector('#find');
  form.elements.token.value = token;
  form.querySelector('label').hidden = true;
  history.replaceState(null, '', location.pathname);
  form.submit();
}
