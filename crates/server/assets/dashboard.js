// Updates an open page, formats times relative to now, and adds keyboard shortcuts.
// Every page works without this script.
"use strict";

(() => {
  const POLL_MS = 2000;
  const POLL_MAX_MS = 15000;
  const ANSWER_MS = 10000;
  const CHORD_MS = 1500;

  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const live = byId("live");

  // Times, relative to the server's clock.
  let clockOffset = root.dataset.now ? Number(root.dataset.now) - Date.now() : 0;

  // The same units as on the server: at least two of a unit.
  function span(ms) {
    const units = [[2 * 86400e3, 86400e3, "d"], [2 * 3600e3, 3600e3, "h"], [2 * 60e3, 60e3, "min"], [0, 1e3, "s"]];
    const [, unit, name] = units.find(([from]) => ms >= from);
    return `${Math.floor(ms / unit)} ${name}`;
  }

  function said(time) {
    const passed = Date.now() + clockOffset - Date.parse(time.dateTime);
    if (passed <= -1000) return `in ${span(-passed)}`;
    if (time.dataset.as === "age") return span(Math.max(passed, 0));
    return passed < 1000 ? "now" : `${span(passed)} ago`;
  }

  function formatTimes(within) {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const text = said(time);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // Changes one tree into another without touching equal nodes: focus, selection, scroll position
  // and form input stay.
  function isSame(a, b) {
    if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) return false;
    // By attribute: `form.id` is the field named "id".
    return a.nodeType !== Node.ELEMENT_NODE
      || ["id", "data-key"].every((name) => a.getAttribute(name) === b.getAttribute(name));
  }

  function become(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      // A new row stays highlighted until its animation ends.
      const kept = name === "open" || (name === "class" && old.nodeName === "TR");
      if (!kept && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "hidden" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old.nodeName === "TIME") return;
    morphChildren(old, fresh);
  }

  function morphChildren(old, fresh) {
    const keyed = new Map();
    for (const child of old.children) {
      if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
    }
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const key = next.dataset && next.dataset.key;
      const known = key === undefined || key === null ? null : keyed.get(key);
      if (known && known !== at) {
        old.insertBefore(known, at);
        become(known, next);
      } else if (at && isSame(at, next)) {
        become(at, next);
        at = at.nextSibling;
      } else {
        if (next.nodeName === "TR") next.classList.add("new");
        old.insertBefore(next, at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  // Live updates: one request at a time, only while the page is visible.
  const status = byId("status");
  let tag = null;
  let wait = POLL_MS;
  let timer = 0;
  let polling = false;
  let leaving = false;

  function setStatus(kind, text) {
    status.hidden = false;
    status.className = kind;
    const words = status.lastElementChild;
    if (words.textContent !== text) words.textContent = text;
  }

  async function poll() {
    clearTimeout(timer);
    if (document.hidden || polling) return;
    polling = true;
    try {
      const headers = { "windlass-live": "1" };
      if (tag) headers["if-none-match"] = tag;
      const answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.status === 404 || answer.status === 401) return location.reload();
      if (!answer.ok && answer.status !== 304) throw new Error(`answered ${answer.status}`);
      clockOffset = Number(answer.headers.get("windlass-now")) - Date.now();
      if (answer.status !== 304) {
        const fresh = document.createElement("template");
        fresh.innerHTML = await answer.text();
        morphChildren(live, fresh.content);
        prepare();
        tag = answer.headers.get("etag");
      }
      formatTimes(document);
      wait = POLL_MS;
      setStatus("", "live");
    } catch (error) {
      // Leaving the page aborts its request.
      if (leaving) return;
      wait = Math.min(wait * 2, POLL_MAX_MS);
      const refused = String(error.message).startsWith("answered");
      setStatus("lost", refused ? "store not answering" : "server unreachable");
    } finally {
      polling = false;
      timer = setTimeout(poll, wait);
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      setStatus("paused", "paused");
    } else {
      poll();
    }
  });

  addEventListener("pagehide", () => {
    leaving = true;
  });
  addEventListener("pageshow", (event) => {
    leaving = false;
    if (event.persisted) poll();
  });

  // "Select all" needs this script, which therefore adds it. Buttons for selected rows are enabled
  // while a row is selected.
  const boxes = (form, name) => [...form.elements].filter((box) => box.type === "checkbox" && box.name === name);

  function prepare() {
    for (const box of document.querySelectorAll("label.all")) box.hidden = false;
    for (const button of document.querySelectorAll("button[data-selected]")) {
      button.disabled = !boxes(button.form, button.dataset.selected).some((box) => box.checked);
    }
  }

  document.addEventListener("change", (event) => {
    const name = event.target.dataset.all;
    if (name) for (const box of boxes(event.target.form, name)) box.checked = event.target.checked;
    prepare();
  });

  // A notice is about the action that led here: loading the page again must not repeat it.
  const address = new URL(location.href);
  if (address.searchParams.has("notice")) {
    for (const name of ["notice", "count"]) address.searchParams.delete(name);
    history.replaceState(null, "", address);
  }

  // Confirms actions that cannot be undone.
  document.addEventListener("submit", (event) => {
    const by = event.submitter;
    if (!by || !by.dataset.confirm || by.dataset.sure) return;
    event.preventDefault();
    const dialog = byId("confirm");
    byId("confirm-text").textContent = by.dataset.confirm;
    dialog.returnValue = "no";
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") return;
      by.dataset.sure = "1";
      by.form.requestSubmit(by);
    };
    dialog.showModal();
  });

  // Keyboard shortcuts.
  const help = byId("help");
  const keys = byId("keys");
  keys.hidden = false;
  keys.addEventListener("click", () => help.showModal());
  let chord = 0;

  function step(by) {
    const links = [...live.querySelectorAll("tbody th a")];
    if (links.length === 0) return;
    const at = links.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1);
    links[next].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      // Enter in a checkbox would send its form.
      if (event.key === "Enter" && event.target.type === "checkbox") event.preventDefault();
      return;
    }
    const begun = Date.now() - chord < CHORD_MS;
    chord = event.key === "g" && !begun ? Date.now() : 0;
    const page = begun && [...document.querySelectorAll("header nav a")].find((a) => a.dataset.key === event.key);
    if (page) page.click();
    else if (event.key === "/") document.querySelector("header .search input").focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else return;
    event.preventDefault();
  });

  prepare();
  // On a small screen, scrolls the selected tab into view.
  for (const chosen of document.querySelectorAll("nav [aria-current]")) {
    chosen.scrollIntoView({ block: "nearest", inline: "center" });
  }
  if (root.dataset.now) {
    formatTimes(document);
    setInterval(() => document.hidden || formatTimes(document), 1000);
    setStatus("", "live");
    timer = setTimeout(poll, POLL_MS);
  }
})();
