// Replaces the main part of a live page when the server has news, and writes where the two cursors of a time axis are into
// the fields below it. Without it every page works, and shows what was true when it was loaded.
'use strict';
// cursors: without this they have no use, and are hidden.
const showCursors = () => {
  for (const label of document.querySelectorAll('.cursor')) label.hidden = false;
};
document.addEventListener('input', (e) => {
  const cursor = e.target.dataset.cursor;
  const field = cursor && document.querySelector(`.moments input[name=${cursor}]`);
  if (!field) return;
  field.value = new Date(Number(e.target.value)).toISOString();
  e.target.setAttribute('aria-valuetext', field.value);
  const other = document.querySelector(`[data-cursor=${cursor === 'a' ? 'b' : 'a'}]`);
  const beside = document.querySelector(`.moments input[name=${cursor === 'a' ? 'b' : 'a'}]`);
  if (other && beside && beside.value === '') beside.value = new Date(Number(other.value)).toISOString();
});
showCursors();
(() => {
  const main = document.querySelector('main[data-live]');
  const box = document.querySelector('#live');
  if (!main || !box || !window.EventSource) return;
  box.closest('label').hidden = false;

  // in use: what is chosen, typed or selected must not vanish under the reader's hands.
  const inUse = () => main.querySelector('input:focus, select:focus, input[type=radio]:checked') !== null ||
    [...main.querySelectorAll('input')].some((i) => i.value !== i.defaultValue) || !document.getSelection().isCollapsed;

  let stream = null;
  let first = true;
  let busy = false;
  const refresh = async () => {
    if (busy || document.hidden || inUse()) return;
    busy = true;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
      const fresh = page.querySelector('main');
      if (!fresh || inUse()) return;
      main.replaceChildren(...fresh.childNodes);
      showCursors();
      if (focused) {
        const again = [...main.querySelectorAll('a')].find((a) => a.getAttribute('href') === focused);
        if (again) again.focus({preventScroll: true});
      }
    } catch { /* the server is away: the stream comes back with it */ } finally {
      busy = false;
    }
  };
  const follow = () => {
    first = true;
    stream = new EventSource('/live');
    stream.onmessage = () => {
      if (!first) refresh();
      first = false;
    };
  };
  const stop = () => {
    if (stream) stream.close();
    stream = null;
  };
  const update = () => {
    stop();
    if (box.checked && !document.hidden) follow();
  };
  box.addEventListener('change', update);
  document.addEventListener('visibilitychange', update);
  addEventListener('pagehide', stop);
  update();
})();
