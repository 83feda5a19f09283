// Moves the token of an invitation from the fragment of the link, which browsers never send, into the form,
// and submits it.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
if (token) {
  const form = document.querySelector('#find');
  form.elements.token.value = token;
  form.querySelector('label').hidden = true;
  history.replaceState(null, '', location.pathname);
  form.submit();
}
