// Player has a worker play one question at a time; of those that come meanwhile only the latest counts. A question that takes
// longer than patience is given up for the next one, with its worker.
const patience = 1000; // ms

export class Player {
  // on has played(output, ms, question), slow(ready), rested(), unread(message) and failed(message).
  constructor(on) {
    this.on = on;
    this.log = new Blob([]);
    this.worker = null;
    this.ready = false; // the worker's engine has been loaded
    this.playing = this.wanted = null; // questions
    this.begun = 0; // when playing did, on a worker that is ready
  }

  // load sets the log.
  load(blob) {
    this.log = blob;
    this.giveUp();
    this.worker?.postMessage({ load: blob });
  }

  // play plays a question: {input, ...}.
  play(question) {
    this.giveUp();
    if (this.playing) {
      this.wanted = question;
      return;
    }
    if (!this.worker) this.start();
    this.wanted = null;
    this.playing = question;
    this.begun = performance.now();
    this.timer = setTimeout(() => this.on.slow(this.ready), patience);
    this.worker.postMessage({ input: question.input });
  }

  // stop ends what is played.
  stop() {
    this.worker?.terminate();
    this.worker = this.wanted = null;
    this.ready = false;
    this.rest();
  }

  giveUp() {
    if (this.playing && this.ready && performance.now() - this.begun > patience) this.stop();
  }

  start() {
    this.worker = new Worker("worker.js", { type: "module" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.postMessage({ load: this.log });
  }

  rest() {
    this.playing = null;
    clearTimeout(this.timer);
    this.on.rested();
  }

  receive(data) {
    if (data.unread) this.on.unread(data.unread);
    if (data.ready) {
      this.ready = true;
      this.begun = performance.now();
    }
    if (data.failed) {
      this.stop(); // the next question has a new worker
      this.on.failed(data.failed);
    }
    if (!data.output) return;
    const question = this.playing;
    this.rest();
    this.on.played(data.output, data.ms, question);
    if (this.wanted) this.play(this.wanted);
  }
}
