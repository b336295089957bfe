// The page: its state is what the inputs say; the server plays it; what comes back is shown.
import { Chart, bins, describe, scales } from "./chart.js";
import { clock, count, duration, share } from "./format.js";
import { Player } from "./player.js";
import { initial, mostLimits, read, seed, write } from "./state.js";

const $ = (id) => document.getElementById(id);
const letters = "ABCD";
const orders = /\s+(oldest-first|newest-first|fair-share)(?!\S)/i;
const mostLog = 512 << 20;

let state = initial();
let output = null; // the latest
let drawn = null; // the latest that the charts show
let unread = ""; // why there is no log
let cards = [];

let asked = null, played = 0, changes = 0; // the input of output, and the number of its change

const player = new Player({
  played(result, ms, { input, change }) {
    [output, asked, played] = [result, input, change];
    show(ms);
  },
  slow() {
    $("stop").hidden = false;
    $("status").value = "Playing…";
  },
  rested() {
    $("stop").hidden = true;
    document.body.removeAttribute("aria-busy");
  },
  unread(message) { unread = `The log ${state.log} cannot be read: ${message}`; },
  failed(message) { $("status").value = `The server did not respond: ${message}. Is sluice playground still running?`; },
});

function play() {
  const { limits, key, flow, arrivals, takes, fields, exact, log } = state;
  document.body.setAttribute("aria-busy", "true");
  player.play({ input: { limits: [...limits], key, flow, arrivals, takes, seed: state.seed, fields, exact, log }, change: changes });
}

$("stop").addEventListener("click", () => {
  player.stop();
  $("status").value = "Stopped. The next change plays again.";
  $("kind").focus();
});

// changed plays the state again, and puts it into the address.
function changed() {
  document.body.dataset.asked = ++changes;
  play();
  clearTimeout(pause);
  pause = setTimeout(link, 250); // browsers bound how often an address changes
}

let pause = 0, linking = Promise.resolve();

function link() {
  clearTimeout(pause);
  linking = linking.then(async () => {
    const number = changes;
    history.replaceState(null, "", await write(state));
    document.body.dataset.linked = number;
  });
  return linking;
}

// The traffic.

const kinds = ["kind", "rate", "time", "clients", "takes", "spread", "seed"];

function readTraffic() {
  const kind = $("kind").value;
  $("traffic").className = kind === "log" ? "logged" : kind === "constant" || kind === "bursts" ? "fixed" : "";
  $("log").hidden = kind !== "log";
  state.seed = seed($("seed").value.trim() || 1);
  const odd = Number($("seed").value.trim() || 1) !== state.seed;
  $("seed").setCustomValidity(odd ? "Want a whole number; 1 is played." : "");
  $("seed").setAttribute("aria-invalid", odd);
  const takes = $("takes").value.trim();
  state.takes = takes === "" || takes === "0" ? "" : $("spread").value + takes;
  const clients = $("clients").value.trim();
  state.arrivals = kind === "log" ? "" :
    `${kind}:${$("rate").value.trim()},${$("time").value.trim()}${clients === "" || clients === "1" ? "" : `,${clients}`}`;
}

function writeTraffic() {
  const [, kind, rate, time, clients] = state.arrivals.match(/^(\w+):([^,]*),([^,]*),?(.*)$/) ?? [];
  $("kind").value = state.arrivals === "" ? "log" : kind;
  if ($("kind").selectedIndex < 0) $("kind").value = "poisson";
  $("rate").value = rate ?? $("rate").value ?? "";
  $("time").value = time ?? $("time").value ?? "";
  $("clients").value = clients || "1";
  $("spread").value = state.takes.startsWith("exponential:") ? "exponential:" : "";
  $("takes").value = state.takes.slice($("spread").value.length);
  $("seed").value = state.seed;
  $("key").value = state.key;
  $("flow").value = state.flow;
  $("fields").value = state.fields;
  $("exact").checked = state.exact;
  $("text").value = state.text;
  nameLog();
  const arrivals = state.arrivals;
  readTraffic();
  if (arrivals !== "" && kind) state.arrivals = arrivals;
}

function nameLog() { $("log-name").textContent = state.log; }

for (const id of kinds) {
  $(id).addEventListener("input", () => {
    const before = $("traffic").className;
    readTraffic();
    if (id === "kind" && state.arrivals !== "" && (before === "logged" || $("rate").value === "")) {
      $("rate").value ||= "120/s";
      $("time").value ||= "1m";
      readTraffic();
    }
    changed();
  });
}
$("key").addEventListener("input", () => { state.key = $("key").value; changed(); });
$("flow").addEventListener("input", () => { state.flow = $("flow").value; changed(); });
$("fields").addEventListener("input", () => { state.fields = $("fields").value.trim(); changed(); });
$("exact").addEventListener("input", () => { state.exact = $("exact").checked; changed(); });
$("traffic").addEventListener("submit", (e) => e.preventDefault());

// The log.

$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { 
  if ($("file").files[0]) loadFile($("file").files[0]);
  $("file").value = ""; // so that the same file can be chosen again
});
$("text").addEventListener("input", () => {
  Object.assign(state, { text: $("text").value, log: "", served: false });
  loadText();
  nameLog();
  changed();
});
const hasFile = (e) => e.dataTransfer.types.includes("Files"); // else it is text, for a field

document.addEventListener("dragover", (e) => {
  if (!hasFile(e)) return;
  e.preventDefault();
  document.body.classList.add("dragging");
});
document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) document.body.classList.remove("dragging"); });
document.addEventListener("drop", (e) => {
  if (!hasFile(e)) return;
  e.preventDefault();
  document.body.classList.remove("dragging");
  if (e.dataTransfer.files[0]) loadFile(e.dataTransfer.files[0]);
});

// load sets the log, unless it is too large. Then there is none.
function load(blob) {
  unread = blob.size <= mostLog ? "" : "The log is larger than 512 MiB, which is the most that this page reads; sluice simulate reads any.";
  player.load(unread ? new Blob([]) : blob);
}

function loadText() { load(new Blob([state.text])); }

function loadFile(file) {
  load(file);
  Object.assign(state, { log: file.name, text: "", arrivals: "", served: false });
  writeTraffic();
  changed();
}

// The limits.

function build() {
  $("limits").replaceChildren();
  cards = state.limits.map((_, i) => {
    const node = $("card").content.cloneNode(true).firstElementChild;
    const find = (selector) => node.querySelector(selector);
    const card = { node, find, input: find(".limit"), mirror: find(".mirror"), error: find(".error"), chart: new Chart(find(".chart"), moved) };
    find(".letter").textContent = letters[i];
    node.setAttribute("aria-label", `Limit ${letters[i]}`);
    card.input.setAttribute("aria-label", `Limit ${letters[i]}`);
    card.error.id = `error-${i}`;
    card.input.value = state.limits[i];
    card.order = find(".order");
    card.order.value = orderOf(card.input.value);
    card.order.setAttribute("aria-label", `Order in which limit ${letters[i]} serves`);
    card.order.addEventListener("input", () => {
      card.input.value = state.limits[i] = inOrder(card.input.value, card.order.value);
      card.mirror.replaceChildren();
      changed();
    });
    card.input.addEventListener("input", () => {
      state.limits[i] = card.input.value;
      card.order.value = orderOf(card.input.value);
      card.mirror.replaceChildren();
      changed();
    });
    card.input.addEventListener("scroll", () => { card.mirror.scrollLeft = card.input.scrollLeft; });
    find(".remove").setAttribute("aria-label", `Remove limit ${letters[i]}`);
    find(".remove").hidden = state.limits.length === 1;
    find(".remove").addEventListener("click", () => {
      state.limits.splice(i, 1);
      build();
      changed();
      (cards[i] ?? cards[i - 1]).input.focus();
    });
    for (const b of node.querySelectorAll("[data-as]")) b.addEventListener("click", () => copy(b, output?.results[i]?.[b.dataset.as] ?? ""));
    resized.observe(find(".chart"));
    $("limits").append(node);
    return card;
  });
  $("add").disabled = state.limits.length === mostLimits;
}

// orderOf returns the order that a limit's text says.
function orderOf(limit) { return limit.match(orders)?.[1].toLowerCase() ?? "oldest-first"; }

// inOrder returns a limit's text with another order.
function inOrder(limit, order) {
  const rest = limit.replace(orders, "").trimEnd();
  return order === "oldest-first" ? rest : `${rest} ${order}`;
}

$("add").addEventListener("click", () => {
  state.limits.push(["100/s", "sliding 100/1s", "fixed 100/1s", "100/s burst 1 queue 50"].find((l) => !state.limits.includes(l)) ?? "100/s");
  build();
  changed();
  cards.at(-1).input.focus();
  cards.at(-1).input.select();
});

$("share").addEventListener("click", async () => {
  await link();
  const missing = state.arrivals === "" && (player.log?.size !== 0 || unread) && !new URLSearchParams(location.hash.slice(1)).has("text");
  copy($("share"), location.href, missing ? "Copied, without the log" : "Copied");
});

// copy puts text into the clipboard and says so on the button.
async function copy(button, text, done = "Copied") {
  const label = button.dataset.label ??= button.textContent; // it may still say what an earlier click did
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = done;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand("copy") ? done : "Not allowed";
    area.remove();
    button.focus();
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

// mark shows what is wrong with a limit, at the word.
function mark(card, fault) {
  const text = card.input.value;
  card.node.classList.toggle("faulty", fault !== null);
  card.error.textContent = fault ? fault.message : "";
  if (fault) {
    card.input.setAttribute("aria-invalid", "true");
    card.input.setAttribute("aria-describedby", card.error.id);
  } else {
    card.input.removeAttribute("aria-invalid");
    card.input.removeAttribute("aria-describedby");
  }
  card.mirror.replaceChildren();
  if (fault && fault.to > fault.from) {
    const word = document.createElement("mark");
    word.textContent = text.slice(fault.from, fault.to);
    card.mirror.append(text.slice(0, fault.from), word, text.slice(fault.to));
    card.mirror.scrollLeft = card.input.scrollLeft;
  }
}

// What came back.

function show(ms) {
  document.body.dataset.shown = played; // tests wait for it
  const unfit = output.error && !asked.arrivals && unread || (output.error ?? "");
  const empty = output.empty && !unread; // nothing is wrong: there is nothing yet
  $("error").textContent = empty ? "" : unfit;
  $("empty").textContent = empty ? "Choose a log, drop one on this page, or paste its lines." : "";
  const { results } = output;
  if (results.length !== cards.length) return; // a newer one comes
  cards.forEach((card, i) => { if (card.input.value === asked.limits[i]) mark(card, results[i].fault ?? null); });
  for (const id of ["rate", "time", "clients", "takes"]) {
    const quoted = output.error?.match(/^"(?:exponential:)?([^"]*)" is not/)?.[1];
    if (quoted !== undefined && $(id).value.trim() === quoted) $(id).setAttribute("aria-invalid", "true");
    else $(id).removeAttribute("aria-invalid");
  }
  cards.forEach((card, i) => {
    const faulty = Boolean(results[i].fault);
    const old = faulty || Boolean(output.error); // it is the result of an earlier limit, or of earlier arrivals
    card.find(".result").hidden = empty || old && !card.chart.data;
    card.find(".result").inert = old;
  });
  $("notes").replaceChildren(...output.notes.map(item));
  if (output.error) {
    $("status").value = drawn && !empty ? "Below is what was played before." : "";
    $("table").hidden = true;
    return;
  }
  const keys = output.keys > 1 ? ` of ${count(output.keys)} keys` : "";
  $("status").value = `${count(output.requests)} requests${keys} in ${duration(output.span)}, played in ${duration(ms / 1000)}`;
  cards.forEach((card, i) => { if (!results[i].fault) figures(card, results[i]); });
  drawn = output;
  draw();
  table();
}

function item(text) {
  const li = document.createElement("li");
  li.textContent = text;
  return li;
}

function figures(card, r) {
  const rows = [
    ["granted", count(r.granted), share(r.granted, output.requests)],
    ["rejected", count(r.rejected), share(r.rejected, output.requests)],
    ["waited", count(r.queued), share(r.queued, output.requests)],
    ["wait p50", duration(r.wait.p50), ""],
    ["wait p99", duration(r.wait.p99), ""],
    ["longest queue", count(r.queue), ""],
  ];
  card.find("dl").replaceChildren(...rows.map(([name, value, small]) => {
    const div = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    if (small) {
      const s = document.createElement("small");
      s.textContent = small;
      dd.append(s);
    }
    div.append(dt, dd);
    return div;
  }));
  card.find(".rejected-keys").textContent = r.keys ? `Rejected most: ${r.keys.map((k) => `${k.key}${k.limit ? ` at ${k.limit}` : ""} (${count(k.rejected)} of ${count(k.requests)})`).join(", ")}` : "";
  flows(card, r.flows ?? []);
  card.find(".notes").replaceChildren(...(r.notes ?? []).map(item));
  card.find(".chart").setAttribute("role", "img");
  card.find(".chart").setAttribute("aria-label", `Chart of ${r.limit}: ${count(r.granted)} of ${count(output.requests)} requests granted, ` +
    `${count(r.rejected)} rejected, at most ${count(r.queue)} waiting. The arrow keys move through the time; the same figures are in the table below.`);
}

// flows shows how long the requests of each flow waited.
function flows(card, list) {
  const row = (name, texts) => {
    const tr = document.createElement("tr");
    tr.append(...texts.map((text, i) => {
      const cell = document.createElement(i === 0 ? "th" : name);
      cell.scope = name === "th" ? "col" : "row";
      cell.textContent = text;
      return cell;
    }));
    return tr;
  };
  const rows = list.map((f) => row("td", [f.key || "none", count(f.requests), count(f.rejected), duration(f.wait.p50), duration(f.wait.p99), duration(f.wait.max)]));
  if (rows.length > 0) rows.unshift(row("th", ["flow", "requests", "rejected", "wait p50", "wait p99", "longest"]));
  card.find(".flows").replaceChildren(...rows);
}

const resized = new ResizeObserver(() => draw());

function draw() {
  if (!drawn || drawn.results.length !== cards.length || cards.length === 0) return;
  const shared = scales(drawn, Chart.most(cards[0].find(".chart")));
  cards.forEach((card, i) => {
    if (!drawn.results[i].fault && card.find(".chart").clientWidth > 0) card.chart.draw(drawn, drawn.results[i], shared);
  });
}

// moved moves the lines of all charts to an instant.
function moved(at) {
  for (const card of cards) {
    card.find(".readout").textContent = describe(card.chart.cursor(at));
    card.find(".readout").setAttribute("aria-live", document.activeElement === card.chart.element ? "polite" : "off");
  }
}

const rowsOfTable = 30;

function table() {
  $("table").hidden = false;
  const shown = output.results.map((r, i) => ({ r, letter: letters[i] })).filter(({ r }) => !r.fault);
  const columns = ["granted", "rejected", "waiting", "left"];
  const cell = (name, text, spans = 1) => {
    const c = document.createElement(name);
    c.textContent = text;
    if (name === "th") c.scope = spans > 1 ? "colgroup" : "col";
    if (spans > 1) c.colSpan = spans;
    return c;
  };
  const row = (...cells) => {
    const tr = document.createElement("tr");
    tr.append(...cells);
    return tr;
  };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(row(cell("td", ""), cell("td", ""), ...shown.map(({ r, letter }) => cell("th", `${letter}: ${r.limit}`, columns.length))),
    row(cell("th", "from"), cell("th", "arrived"), ...shown.flatMap(() => columns.map((c) => cell("th", c)))));
  const series = shown.map(({ r }) => bins(output, r, rowsOfTable));
  (series[0]?.list ?? []).forEach((b, i) => {
    const from = cell("th", clock(b.at, series[0].width));
    from.scope = "row";
    body.append(row(from, cell("td", count(b.arrivals)), ...series.flatMap(({ list }) =>
      columns.map((c) => cell("td", list[i][c] === null ? "–" : count(list[i][c]))))));
  });
  $("table").querySelector("table").replaceChildren(head, body);
}

// The start, and a link that is pasted into the address bar.

async function open() {
  state = await read(location.hash);
  writeTraffic();
  build();
  unread = "";
  if (state.served) player.load(null);
  else loadText(); // or nothing, in place of an earlier log
  document.body.dataset.asked = document.body.dataset.linked = ++changes;
  play();
}

// A link to a part of the page would take the place of the state in its address.
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault();
  cards[0].input.focus();
});

addEventListener("hashchange", open);
await open();
