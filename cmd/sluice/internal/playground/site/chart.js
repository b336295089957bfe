// Charts of one limit over time, as SVG: requests per second, requests that wait, and permits that are left. The page that
// sluice simulate --html writes has them too.
import { clock, compact, count, duration, step, timeStep } from "./format.js";

const margin = { left: 42, right: 6 };
const title = 18;
const heights = { rate: 118, waiting: 46, left: 46 };

// round returns the least of 1, 2, 5, 10, 20, 50, ... that is at least n.
function round(n) {
  for (let power = 1; ; power *= 10) {
    const found = [power, 2 * power, 5 * power].find((m) => m >= n);
    if (found) return found;
  }
}

// bins joins the bins of a result so that each has a few pixels, and returns what is drawn in each.
export function bins(output, result, most) {
  const n = Math.max(...output.results.map((r) => r.bins?.length ?? 0));
  const each = round(n / most);
  const width = output.width * each;
  const list = [];
  for (let from = 0; from < n; from += each) {
    const part = (result.bins ?? []).slice(from, from + each);
    const sum = (name) => part.reduce((total, b) => total + b[name], 0);
    const largest = (name) => Math.max(0, ...part.map((b) => b[name]));
    const left = part.map((b) => b.left).filter((v) => v >= 0);
    list.push({
      at: from * output.width, arrivals: sum("arrivals"), granted: sum("grants"), rejected: sum("rejections"),
      peak: width > 1 ? largest("peak") : 0, waiting: largest("waiting"), left: left.length > 0 ? Math.min(...left) : null,
    });
  }
  return { width, list };
}

// scales returns what the charts of all limits have in common.
export function scales(output, most) {
  let rate = 0, waiting = 0, end = output.width;
  for (const result of output.results) {
    if (result.fault) continue;
    const { width, list } = bins(output, result, most);
    end = width * list.length;
    for (const b of list) {
      rate = Math.max(rate, b.arrivals / width, b.peak, (b.granted + b.rejected) / width);
      waiting = Math.max(waiting, b.waiting);
    }
  }
  return { rate, waiting, end };
}

// describe returns what Chart.cursor returns, as text.
export function describe(b) {
  if (b === null) return "";
  const rate = (n) => compact(n / b.width);
  return `${clock(b.at, b.width)}, mean of ${duration(b.width)}: ${rate(b.arrivals)}/s arrived` +
    `${b.peak > b.arrivals / b.width ? ` (peak ${count(b.peak)} in a second)` : ""}, ${rate(b.granted)}/s granted, ` +
    `${rate(b.rejected)}/s rejected, ${count(b.waiting)} waiting${b.left === null ? "" : `, ${count(b.left)} left`}`;
}

// Chart draws into an element. moved is called with the instant that the pointer or the arrow keys are at, or null.
export class Chart {
  constructor(element, moved) {
    this.element = element;
    this.at = null;
    element.addEventListener("pointermove", (e) => moved(this.instant(e.clientX)));
    element.addEventListener("pointerdown", (e) => moved(this.instant(e.clientX)));
    element.addEventListener("pointerleave", () => moved(null));
    element.addEventListener("blur", () => moved(null));
    element.addEventListener("keydown", (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[e.key];
      if (e.key === "Escape") moved(null);
      if (by === undefined || !this.data) return;
      e.preventDefault();
      const { width, list } = this.data;
      const i = this.at === null ? (by > 0 ? -1 : list.length) : Math.floor(this.at / width + 1e-9);
      moved((Math.min(list.length - 1, Math.max(0, i + by)) + 0.5) * width);
    });
  }

  // most is how many bins there is room for.
  static most(element) { return Math.max(60, Math.floor((element.clientWidth - margin.left - margin.right) / 2)); }

  draw(output, result, shared) {
    this.w = this.element.clientWidth;
    this.end = shared.end;
    this.data = bins(output, result, Chart.most(this.element));
    const { width, list } = this.data;
    const waits = shared.waiting > 0;
    this.x = (t) => margin.left + (t / this.end) * (this.w - margin.left - margin.right);
    let top = 0;
    const parts = [];
    const panel = (height, values, names, draw) => {
      const every = height > 80 ? step(values, 4) : values;
      const max = Math.ceil(values / every - 1e-9) * every;
      const y = (v) => top + title + height - (v / max) * height;
      parts.push(this.panel(top, max, every, y, names), draw(y));
      top += title + height + 6;
    };
    const peaks = width > 1 ? [["peak", "peak second"]] : [];
    panel(heights.rate, shared.rate || 1, [["arrived", `requests/s, mean of ${duration(width)}: arrived`], ["granted", "granted"], ["rejected", "rejected"], ...peaks], (y) =>
      (width > 1 ? this.steps(list, "peak", y, (b) => b.peak) : "") +
      this.area(list, "granted", y, (b) => [0, b.granted / width]) +
      this.area(list, "rejected", y, (b) => [b.granted / width, (b.granted + b.rejected) / width]) +
      this.steps(list, "arrived", y, (b) => b.arrivals / width));
    if (waits) panel(heights.waiting, shared.waiting, [["waiting", "waiting"]], (y) => this.area(list, "waiting", y, (b) => [0, b.waiting]));
    if (list.some((b) => b.left !== null)) panel(heights.left, result.permits, [["left", output.keys > 1 ? "permits left, of the key with the fewest" : "permits left"]], (y) => this.line(list, "left", y, (b) => b.left));
    this.bottom = top - 6;
    this.element.innerHTML = `<svg viewBox="0 0 ${this.w} ${this.bottom + 18}" height="${this.bottom + 18}" aria-hidden="true">` +
      `${parts.join("")}${this.times()}<line class="cursor" y1="${title}" y2="${this.bottom}" visibility="hidden"/></svg>`;
    this.cursor(this.at);
  }

  // panel draws the names of a panel and its axis.
  panel(top, max, every, y, names) {
    let out = `<text class="title" x="${margin.left}" y="${top + 12}">` +
      names.map(([kind, text], i) => `<tspan${i > 0 ? ' dx="9"' : ""} class="${kind}">${text}</tspan>`).join("") + "</text>";
    for (let v = 0; v <= max * 1.0001; v += every) {
      out += `<line class="grid" x1="${margin.left}" x2="${this.w - margin.right}" y1="${y(v)}" y2="${y(v)}"/>` +
        `<text x="${margin.left - 6}" y="${y(v) + 4}" text-anchor="end">${compact(v)}</text>`;
    }
    return out;
  }

  times() {
    const every = Math.max(0.001, timeStep(this.end, Math.max(2, Math.floor(this.w / 80)))); // clock has milliseconds
    let out = "";
    for (let t = 0; t <= this.end * 1.0001; t += every) {
      const x = this.x(t);
      const anchor = x > this.w - 24 ? "end" : "middle";
      out += `<text x="${Math.min(x, this.w)}" y="${this.bottom + 15}" text-anchor="${anchor}">${clock(t, every)}</text>`;
    }
    return out;
  }

  // area fills steps between two values of each bin.
  area(list, name, y, values) {
    const { width } = this.data;
    let upper = "", lower = "";
    for (const b of list) {
      const [low, high] = values(b), x1 = this.x(b.at).toFixed(1), x2 = this.x(b.at + width).toFixed(1);
      upper += `L${x1} ${y(high).toFixed(1)}L${x2} ${y(high).toFixed(1)}`;
      lower = `L${x2} ${y(low).toFixed(1)}L${x1} ${y(low).toFixed(1)}${lower}`;
    }
    return upper && `<path class="${name}" d="M${upper.slice(1)}${lower}Z"/>`;
  }

  // steps draws the upper edge of an area.
  steps(list, name, y, value) {
    const points = list.map((b) => `${this.x(b.at).toFixed(1)} ${y(value(b)).toFixed(1)}H${this.x(b.at + this.data.width).toFixed(1)}`);
    return `<path class="${name}" d="M${points.join("L")}"/>`;
  }

  // line joins the values in the middles of the bins. A bin without a value has no point.
  line(list, name, y, value) {
    const points = list.filter((b) => value(b) !== null).map((b) => `${this.x(b.at + this.data.width / 2).toFixed(1)} ${y(value(b)).toFixed(1)}`);
    return points.length > 0 ? `<path class="${name}" d="M${points.join("L")}"/>` : "";
  }

  instant(clientX) {
    if (!this.x) return null;
    const box = this.element.getBoundingClientRect();
    const t = ((clientX - box.left - margin.left) / (this.w - margin.left - margin.right)) * this.end;
    return t >= 0 && t < this.end ? t : null;
  }

  // cursor moves the line to an instant and returns what is there.
  cursor(at) {
    this.at = at;
    const line = this.element.querySelector(".cursor");
    if (!line) return null;
    line.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at === null) return null;
    const { width, list } = this.data;
    const b = list[Math.min(list.length - 1, Math.floor(at / width + 1e-9))];
    line.setAttribute("x1", this.x(b.at + width / 2));
    line.setAttribute("x2", this.x(b.at + width / 2));
    return { ...b, width };
  }
}
