// The state of the page, as its link holds it. arrivals is as in sluice simulate --arrivals; "" means the log.
export const mostLimits = 4;
const mostLetters = 200; // of a limit

export const initial = () => ({
  limits: ["100/s burst 50 queue 200", "concurrency 10"], key: "", flow: "", arrivals: "day:80/s,1h", takes: "100ms", seed: 1, fields: "", exact: false,
  log: "", text: "", served: false,
});

// mostText is how long the lines of a log may be, compressed, that a link holds.
const mostText = 48_000;

// write returns the fragment for a state.
export async function write(state) {
  const p = new URLSearchParams();
  for (const limit of state.limits) p.append("limit", limit);
  if (state.key) p.set("key", state.key);
  if (state.flow) p.set("flow", state.flow);
  if (state.arrivals) {
    p.set("arrivals", state.arrivals);
    if (state.takes) p.set("takes", state.takes);
    if (state.seed !== 1) p.set("seed", state.seed);
  } else {
    if (state.fields) p.set("fields", state.fields);
    if (state.exact) p.set("exact", "1");
    p.set("log", state.log);
    if (state.served) p.set("served", "1");
    if (state.text) {
      const packed = await pack(state.text);
      if (packed.length <= mostText) p.set("text", packed);
    }
  }
  return "#" + p.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%2C", ",");
}

// read returns the state of a fragment. What the fragment does not set has its default.
export async function read(fragment) {
  const p = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = initial();
  const limits = p.getAll("limit");
  if (limits.length > 0) state.limits = limits.slice(0, mostLimits).map((l) => l.slice(0, mostLetters));
  state.key = p.get("key") ?? "";
  state.flow = p.get("flow") ?? "";
  if (p.has("log")) state.arrivals = "";
  else if (p.has("arrivals")) state.arrivals = p.get("arrivals");
  if (p.has("arrivals")) state.takes = p.get("takes") ?? ""; // links of before there were durations have none
  state.seed = seed(p.get("seed"));
  state.fields = p.get("fields") ?? "";
  state.exact = p.get("exact") === "1";
  state.log = p.get("log") ?? "";
  state.served = p.get("served") === "1";
  if (p.has("text")) state.text = await unpack(p.get("text")).catch(() => "");
  return state;
}

// seed returns a whole number that both JavaScript and Go have.
export function seed(text) {
  const n = Number(text ?? 1);
  return Number.isSafeInteger(n) && n >= 0 ? n : 1;
}

async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  let binary = "";
  for (const b of new Uint8Array(await new Response(stream).arrayBuffer())) binary += String.fromCharCode(b);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(packed) {
  if (packed.length > mostText) throw new Error("it is longer than write makes it");
  const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}
