// Plays limits off the page's thread. The page sends {load}, a blob, or {input}; it gets {ready}, {failed}, {unread} or {output, ms}.
import "./wasm_exec.js";

const go = new Go();

async function start() {
  const response = await fetch("sluice.wasm");
  if (!response.ok) throw new Error(`sluice.wasm: ${response.status} ${response.statusText}`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  go.run(instance).then(() => fail(new Error("the engine has ended")));
  postMessage({ ready: true });
}

async function answer({ load, input }) {
  if (load) {
    sluice.load(new Uint8Array(await load.arrayBuffer().catch((e) => {
      postMessage({ unread: e.message });
      return new ArrayBuffer(0); // in place of an earlier log
    })));
    return;
  }
  const begun = performance.now();
  const output = JSON.parse(sluice.play(JSON.stringify(input)));
  postMessage({ output, ms: performance.now() - begun });
}

function fail(e) { postMessage({ failed: String(e.message ?? e) }); }

let last = start(); // messages are answered in the order in which they come
last.catch(fail);

onmessage = ({ data }) => {
  last = last.then(() => answer(data));
  last.catch(fail);
};
