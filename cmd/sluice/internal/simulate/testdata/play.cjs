// Plays what standard input asks for with the playground's engine, as the page's worker does.
// Usage: node play.cjs wasm_exec.js sluice.wasm.gz <questions >answers; a question is {log, input} as JSON.
const fs = require("fs"), zlib = require("zlib"), path = require("path");
require(path.resolve(process.argv[2]));

(async () => {
  const go = new Go();
  const { instance } = await WebAssembly.instantiate(zlib.gunzipSync(fs.readFileSync(process.argv[3])), go.importObject);
  go.run(instance);
  const answers = [];
  for (const { log, input } of JSON.parse(fs.readFileSync(0, "utf8"))) {
    if (log) sluice.load(new TextEncoder().encode(log));
    answers.push(sluice.play(JSON.stringify(input)));
  }
  fs.writeFileSync(1, `[${answers.join(",")}]`); // all of it: exit drops what is still buffered
  process.exit(0);
})();
