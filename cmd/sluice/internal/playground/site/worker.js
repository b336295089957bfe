// Plays limits off the page's thread. The page sends {load} or {input}; it gets {ready}, {failed} or {output, ms}.
import "./wasm_exec.js";

const go = new Go();

async function start() {
  const response = await fetch("sluice.wasm");
  if (!response.ok) throw new Error(`sluice.wasm: ${response.status} ${response.statusText}`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  go.run(instance).then(() => postMessage({ failed: "the engine has ended" }));
}

const started = start();
started.then(() => postMessage({ ready: true }), (e) => postMessage({ failed: String(e.message ?? e) }));

onmessage = async ({ data }) => {
  try {
    await started;
    if (data.load) {
      sluice.load(new Uint8Array(data.load));
      return;
    }
    const begun = performance.now();
    const output = JSON.parse(sluice.play(JSON.stringify(data.input)));
    postMessage({ output, ms: performance.now() - begun });
  } catch (e) {
    postMessage({ failed: String(e.message ?? e) });
  }
};
