"use strict";
// All that comes from the service is hostile: it goes into the page as text only.

const $ = id => document.getElementById(id);
const cards = new Map(); // by path
const elections = new Map(); // as the dashboard has told, by path
let state = null; // the last that came, without its elections
let ahead = 0; // of this browser's clock before the dashboard's, in ms
let heard = 0, heardAt = Date.now(); // when something came last, by performance.now, which may stand still while the computer sleeps, and by Date.now

const token = takeToken();
const mayChange = document.body.dataset.changes === "true" && token !== "";

// The token comes behind the address's #, which is sent nowhere, and is not left there to be copied.
function takeToken() {
  const given = location.hash.slice(1);
  if (given) {
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem("token", given);
  }
  return sessionStorage.getItem("token") || "";
}

function make(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
  e.hidden = text === "";
}

const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

// lasted is a duration for people.
function lasted(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} days`;
}

const at = text => new Date(text).getTime() + ahead;
const hours = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const time = new Intl.DateTimeFormat([], hours), day = new Intl.DateTimeFormat([], { year: "numeric", month: "short", day: "numeric", ...hours });

// clock is a time of today, or a date and a time.
function clock(text) {
  const d = new Date(text);
  return (d.toDateString() === new Date().toDateString() ? time : day).format(d);
}

// connect keeps in touch with the dashboard. The browser itself connects again after an error, but not
// after an answer that is none.
function connect() {
  const events = new EventSource("events");
  events.onmessage = message => {
    take(JSON.parse(message.data));
    heard = performance.now(); // what cannot be taken is no sign of life
    heardAt = Date.now();
    tick();
  };
  events.onerror = () => {
    heard = -1e9;
    tick();
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

function take(news) {
  ahead = Date.now() - new Date(news.at).getTime();
  if (state && state.began !== news.began) { // it was started again, and knows nothing of before
    elections.clear();
  }
  state = news;
  for (const e of news.elections) elections.set(e.path, e);
  for (const path of elections.keys()) if (!news.paths.includes(path)) elections.delete(path);
  for (const [path, card] of cards) {
    if (elections.has(path)) continue;
    sight.unobserve(card.root);
    inSight.delete(card.root);
    card.root.remove();
    cards.delete(path);
  }
  let before = null;
  for (const path of news.paths) {
    const e = elections.get(path);
    if (!e) continue;
    if (!cards.has(path)) cards.set(path, newCard(path));
    const card = cards.get(path);
    if (news.elections.includes(e)) show(card, e);
    const next = before ? before.nextSibling : $("elections").firstChild;
    if (next !== card.root) $("elections").insertBefore(card.root, next);
    before = card.root;
  }
  $("find").hidden = news.paths.length < 5 && $("filter").value === "";
}

// inSight are the cards that are drawn each second: to draw hundreds takes longer than that.
const inSight = new Set();
const sight = new IntersectionObserver(entries => {
  for (const e of entries) {
    if (e.isIntersecting) inSight.add(e.target);
    else inSight.delete(e.target);
  }
  tick();
});

function newCard(path) {
  const root = $("election").content.firstElementChild.cloneNode(true);
  const q = selector => root.querySelector(selector);
  const card = {
    root, path, title: q("h2"), leader: q(".leader"), trouble: q(".trouble"), notes: q(".notes"), buttons: q(".buttons"), answer: q(".answer"),
    bar: q(".strip"), caption: q("figcaption"), rows: q(".candidates tbody"), table: q(".candidates"), spans: q(".spans tbody"), summary: q("summary"), candidates: new Map(),
  };
  root.setAttribute("aria-label", path); // which may have spaces, as no ID may
  const [standing, terms] = root.querySelectorAll(".scroll");
  standing.setAttribute("aria-label", `Candidates of ${path}`);
  terms.setAttribute("aria-label", `Terms of ${path}`);
  sight.observe(root);
  if (mayChange) {
    card.askLeader = button(card.buttons, "Ask the leader to go", () => ask(path, "ask", ""));
    card.undo = button(card.buttons, "Undo the designation", () => ask(path, "undesignate", ""));
    card.buttons.hidden = false;
    const head = card.table.tHead.rows[0], change = make("th", "Change");
    change.scope = "col";
    head.insertBefore(change, head.cells[2]); // where a narrow page shows it
  }
  return card;
}

function button(parent, text, click) {
  const b = make("button", text);
  b.type = "button";
  b.addEventListener("click", click);
  parent.append(b, " ");
  return b;
}

// show puts an election into its card. What is the same stays, so that the focus does.
function show(card, e) {
  card.drawn = false;
  card.title.replaceChildren(e.path, make("small", e.strategy));
  put(card.trouble, e.trouble ? `This may be so no longer: ${e.trouble}` : "");
  const notes = [];
  if (e.leader && e.value) notes.push(`Value: ${e.value}`);
  if (e.asked) notes.push(`Asked to go ${e.asked}`);
  if (e.designated) notes.push(`Designated: ${e.designated}`);
  if (e.more) notes.push(`${e.more} more stand, behind these`);
  if (e.hidden) notes.push("Candidates that wait leave no trace with this strategy");
  put(card.notes, notes.join(". "));
  card.root.className = e.trouble ? "unknown stale" : e.leader ? "led" : last(e).kind === "unknown" ? "unknown" : "vacant";
  if (mayChange) {
    card.askLeader.hidden = !e.leader;
    card.undo.hidden = !e.designated;
  }
  showCandidates(card, e);
  card.spans.replaceChildren(...e.spans.toReversed().slice(0, 50).map(s => {
    const row = make("tr");
    row.append(make("td", clock(s.from)), make("td"), make("th", who(s)), make("td", s.token || "–"));
    row.span = s;
    return row;
  }));
  put(card.summary, `${terms(e)} seen` + (e.spans.length > 50 ? ", and the last 50 changes" : ""));
}

// terms says how many were seen. One goes on through a time in which nobody could look.
function terms(e) {
  const tokens = new Set(e.spans.map(s => s.token));
  tokens.delete(undefined);
  return plural(tokens.size, "term", "terms");
}

const last = e => e.spans[e.spans.length - 1] || { kind: "unknown" };
const who = s => s.kind === "led" ? s.id || "(no ID)" : s.kind === "vacant" ? "nobody" : "unknown";

function showCandidates(card, e) {
  const keys = new Set(e.candidates.map(c => c.key));
  for (const [key, row] of card.candidates) {
    if (keys.has(key)) continue;
    row.remove();
    card.candidates.delete(key);
  }
  const focused = document.activeElement;
  e.candidates.forEach((c, n) => {
    let row = card.candidates.get(c.key);
    if (!row) {
      row = make("tr");
      row.append(make("td"), make("th"), make("td"), make("td"), make("td"));
      row.cells[1].scope = "row";
      row.cells[2].className = "rank";
      row.cells[3].className = "value";
      row.value = make("div"); // three lines of it, and all of it where one points at it
      row.cells[3].append(row.value);
      row.cells[4].className = "session";
      row.texts = [0, 1, 2, 4].map(i => row.cells[i]);
      if (mayChange) {
        const cell = make("td");
        row.transfer = button(cell, "Transfer", () => ask(card.path, "transfer", c.id));
        row.designate = button(cell, "Designate", () => ask(card.path, "designate", c.id));
        row.transfer.setAttribute("aria-label", `Transfer to ${c.id}`);
        row.designate.setAttribute("aria-label", `Designate ${c.id}`);
        row.insertBefore(cell, row.cells[2]);
      }
      card.candidates.set(c.key, row);
    }
    row.className = c.leads ? "leads" : "";
    const texts = [n + 1, (c.id || "(no ID)") + (c.leads ? " (leads)" : "") + (c.designated ? " (designated)" : ""), c.rank || "–", c.session || "–"];
    texts.forEach((text, i) => put(row.texts[i], String(text)));
    row.texts[3].title = c.session || "";
    put(row.value, c.value || "–");
    row.value.title = c.value || "";
    if (row.transfer) {
      row.transfer.hidden = c.leads || c.odd || !e.transfers;
      row.designate.hidden = c.designated || c.odd || !e.designates;
    }
    if (card.rows.rows[n] !== row) card.rows.insertBefore(row, card.rows.rows[n] || null);
  });
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // a row that moves loses it
  card.table.hidden = e.candidates.length === 0;
  card.table.classList.toggle("no-rank", !e.candidates.some(c => c.rank));
}

// draw draws the terms since the dashboard began, and the time without a leader.
function draw(card, e, now) {
  const began = at(state.began), whole = Math.max(1, now - began);
  let gaps = 0, without = 0, color = "b";
  const bars = e.spans.map(s => {
    const from = Math.max(at(s.from), began), to = s.to ? at(s.to) : now;
    if (s.kind === "vacant") gaps++, without += to - from;
    if (s.kind === "led") color = color === "a" ? "b" : "a";
    const x = (from - began) / whole * 100;
    return { x, width: Math.min(100 - x, Math.max(0.1, (to - from) / whole * 100)), kind: s.kind === "led" ? color : s.kind, s, length: to - from };
  });
  while (card.bar.childNodes.length > bars.length) card.bar.lastChild.remove();
  bars.forEach((b, n) => {
    const bar = card.bar.childNodes[n] || card.bar.appendChild(make("span"));
    bar.style.left = `${b.x.toFixed(3)}%`;
    bar.style.width = `${b.width.toFixed(3)}%`;
    bar.className = b.kind;
    bar.textContent = b.s.kind === "led" ? who(b.s) : ""; // cut where the bar ends
    bar.title = `${who(b.s)}, ${lasted(b.length)} from ${clock(b.s.from)}`;
  });
  const text = `${terms(e)} since ${clock(e.spans.length ? e.spans[0].from : state.began)}` + // those of before are forgotten
    (gaps ? `; without a leader ${plural(gaps, "time", "times")}, ${lasted(without)} in all` : "; never seen without a leader");
  put(card.caption, text);
  card.bar.setAttribute("aria-label", `${e.path}: ${text}`);
}

// tick shows what changes with time alone.
function tick() {
  const silent = performance.now() - heard > 30000 || Date.now() - heardAt > 30000;
  document.body.classList.toggle("stale", silent);
  if (!state) {
    if (silent && performance.now() > 5000) put($("trouble"), "The dashboard does not answer.");
    return;
  }
  put($("trouble"), silent ? "Out of touch with the dashboard: what is below may be so no longer." : state.trouble ? `There may be other elections: ${state.trouble}` : "");
  const now = silent ? heardAt : Date.now(); // what nobody has seen since does not last on
  let leaderless = 0, unknown = 0;
  const wanted = $("filter").value.toLowerCase();
  for (const [path, e] of elections) {
    const card = cards.get(path);
    if (e.trouble || last(e).kind === "unknown") unknown++;
    else if (!e.leader && e.strategy) leaderless++;
    card.root.hidden = wanted !== "" && !words(e).some(word => word.toLowerCase().includes(wanted));
    if (card.root.hidden) continue;
    if (e.leader) {
      const age = lasted(now - at(e.leader.from)), exact = e.exact ? "leads for" : "has been seen to lead for";
      const text = [e.leader.id || "(no ID)", ` ${e.trouble ? "led when this was seen last" : `${exact} ${age}`}, token ${e.leader.token}`];
      if (card.leader.textContent !== text.join("")) card.leader.replaceChildren(make("strong", text[0]), text[1]);
    } else if (!e.strategy) {
      put(card.leader, "There is no election here any more");
    } else {
      put(card.leader, last(e).kind === "vacant" ? `Nobody leads; seen so for ${lasted(now - at(last(e).from))}` : "It is unknown who leads");
    }
    if (card.drawn && !inSight.has(card.root)) continue;
    card.drawn = true;
    draw(card, e, now);
    for (const row of card.spans.rows) put(row.cells[1], lasted((row.span.to ? at(row.span.to) : now) - at(row.span.from)));
  }
  const parts = [plural(elections.size, "election", "elections")];
  if (leaderless) parts.push(`${leaderless} without a leader`);
  if (unknown) parts.push(`${unknown} unknown`);
  put($("summary"), parts.join(", ") + ".");
}

// words are what the filter looks at.
const words = e => [e.path, e.strategy, e.leader?.id, e.value, e.asked, e.designated, e.trouble, ...e.candidates.flatMap(c => [c.id, c.value, c.session])].filter(Boolean);

const orders = {
  ask: ["Ask the leader to go?", (e) => `${e.leader ? e.leader.id : "Nobody"} leads ${e.path}. It is asked to end its term. It stands again afterwards, behind the others.`, "Ask"],
  transfer: ["Transfer the leadership?", (e, id) => `${e.leader ? e.leader.id : "Nobody"} leads ${e.path}. It is asked to have ${id} lead next.`, "Transfer"],
  designate: ["Designate this candidate?", (e, id) => `${id} is to outrank all others in ${e.path}, until the designation is undone.`, "Designate"],
  undesignate: ["Undo the designation?", (e) => `Nobody is designated in ${e.path} any more.`, "Undo"],
};

// ask has the operator confirm an order, and gives it. It is about the leader that is shown meanwhile.
function ask(path, what, id) {
  const e = elections.get(path), card = cards.get(path), dialog = $("ask");
  if (!e || dialog.open) return;
  const seen = e.leader ? e.leader.token : "";
  $("ask-title").textContent = orders[what][0];
  $("ask-text").textContent = orders[what][1](e, id);
  $("ask-yes").textContent = orders[what][2];
  $("ask-why").value = "";
  dialog.returnValue = "";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "yes") return;
    put(card.answer, "…");
    put(card.answer, await order({ do: what, election: path, id, why: $("ask-why").value, token: seen }));
  };
  dialog.showModal();
}

async function order(o) {
  try {
    const response = await fetch("act", { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: JSON.stringify(o) });
    const said = await response.json();
    if (response.status === 502) return `Perhaps not done: ${said.error}`; // the service has not answered, or too late
    return said.error ? `Not done: ${said.error}` : `Done: ${said.done}.`;
  } catch (error) {
    return `Perhaps not done: the dashboard has not answered (${error.message})`;
  }
}

if (document.body.dataset.changes === "true" && !mayChange) put($("readonly"), "To change something, open the address that the dashboard has logged at its start.");
$("filter").addEventListener("input", tick);
addEventListener("hashchange", () => location.reload()); // the address with the token was opened here
setInterval(tick, 1000);
connect();
