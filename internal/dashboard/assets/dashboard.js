// Replaces the main part of a live page when the server has news. Without it every page works, and shows what was true
// when it was loaded.
'use strict';
(() => {
  const main = document.querySelector('main[data-live]');
  const box = document.querySelector('#live');
  if (!main || !box || !window.EventSource) return;
  box.closest('label').hidden = false;

  // in use: what is chosen, typed or selected must not vanish under the reader's hands.
  const inUse = () => main.querySelector('input:focus, select:focus, input[type=radio]:checked') !== null ||
    !document.getSelection().isCollapsed;

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
