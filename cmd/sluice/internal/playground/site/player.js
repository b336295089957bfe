// Player has the server play one question at a time; of those that come meanwhile only the latest counts. A question that takes
// longer than patience is given up for the next one.
const patience = 1000; // ms

export class Player {
  // on has played(output, ms, question), slow(), rested(), unread(message) and failed(message).
  constructor(on) {
    this.on = on;
    this.log = new Blob([]); // null: the one that the server offers
    this.page = `pages/${Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("")}`;
    this.sent = false; // the server has the log
    this.playing = this.wanted = null; // questions
    this.start = 0; // when playing did
  }

  // load sets the log; null is the one that the server offers.
  load(blob) {
    this.log = blob;
    this.sent = false;
  }

  // play plays a question: {input, ...}.
  play(question) {
    if (this.playing && performance.now() - this.start > patience) this.stop();
    if (this.playing) {
      this.wanted = question;
      return;
    }
    this.wanted = null;
    this.playing = question;
    this.start = performance.now();
    this.timer = setTimeout(() => this.on.slow(), patience);
    this.ask(question, new AbortController());
  }

  // stop ends what is played.
  stop() {
    this.asking?.abort();
    this.wanted = null;
    this.rest();
  }

  rest() {
    this.playing = null;
    clearTimeout(this.timer);
    this.on.rested();
  }

  async ask(question, asking) {
    this.asking = asking;
    try {
      const start = performance.now();
      const output = await this.answer(question.input, asking.signal);
      if (asking.signal.aborted) return;
      this.rest();
      this.on.played(output, performance.now() - start, question);
    } catch (e) {
      if (asking.signal.aborted) return;
      this.rest();
      this.on.failed(String(e.message ?? e));
    }
    if (this.wanted) this.play(this.wanted);
  }

  async answer(input, signal) {
    for (let tries = 1; ; tries++) {
      if (!this.sent && input.arrivals === "") await this.send(signal);
      const response = await fetch(`${this.page}/play`, { method: "POST", body: JSON.stringify(input), signal });
      if (response.ok) return response.json();
      this.sent = false; // 410: another page has sent its log, or the server is another
      if (response.status !== 410 || tries === 5) throw new Error(await response.text());
    }
  }

  async send(signal) {
    const blob = this.log;
    if (blob === null) {
      const response = await fetch(`${this.page}/offered`, { method: "POST", signal });
      if (response.ok) {
        this.sent = this.log === blob;
        return;
      }
      this.on.unread(await response.text());
    }
    const body = await blob?.arrayBuffer().catch((e) => this.on.unread(e.message)); // undefined: none, in place of an earlier log
    const response = await fetch(`${this.page}/log`, { method: "POST", body, signal });
    if (!response.ok) throw new Error(await response.text());
    this.sent = this.log === blob;
  }
}
