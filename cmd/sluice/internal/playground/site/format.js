// Numbers and times as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (n) => whole.format(n);
export const compact = (n) => (n < 10000 ? String(Number(n.toPrecision(3))) : short.format(n));
export const share = (n, of) => (n === 0 ? "0 %" : of > 0 ? `${(100 * n / of).toFixed(n > 0 && n / of < 0.1 ? 2 : 1)} %` : "");

// duration returns seconds as text, such as 50.1 ms.
export function duration(s) {
  if (s === 0) return "0";
  if (s < 0.001) return `${three(s * 1e6)} µs`;
  if (s < 1) return `${three(s * 1000)} ms`;
  if (s < 120) return `${three(s)} s`;
  if (s < 7200) return `${three(s / 60)} min`;
  return `${three(s / 3600)} h`;
}

const three = (n) => String(Number(n.toPrecision(3)));

// clock returns an instant since the start, as exact as a step of so many seconds needs.
export function clock(s, step) {
  if (step >= 86400) return `${Math.round(s / 86400)} d`;
  const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(step) - 1e-9)));
  if (s < 60 && step < 60) return `${s.toFixed(digits)} s`;
  const t = Math.round(s / (10 ** -digits)) * 10 ** -digits;
  const pad = (n) => String(Math.floor(n)).padStart(2, "0");
  const rest = pad(t % 60) + (digits ? (t % 1).toFixed(digits).slice(1) : "");
  if (t < 3600) return `${Math.floor(t / 60)}:${rest}`;
  const hours = `${Math.floor(t / 3600)}:${pad((t / 60) % 60)}`;
  return step < 60 ? `${hours}:${rest}` : `${hours} h`;
}

// step returns a round step, of 1, 2 or 5 times a power of ten, that divides a range into about n parts.
export function step(range, n) {
  const rough = range / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
}

// timeStep is step for seconds, which above a minute has the divisors of an hour and of a day.
export function timeStep(range, n) {
  const rough = range / n;
  if (rough <= 20) return step(range, n);
  return [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((s) => s >= rough * 0.999) ?? 86400 * Math.ceil(rough / 86400);
}
