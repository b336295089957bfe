// The page's engine, for a worker of the browser: it sets globalThis.sluice = {load(bytes), play(json)}.
package main

import (
	"encoding/json"
	"runtime/debug"
	"syscall/js"
	_ "time/tzdata" // a page has no time zones

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
)

func main() {
	debug.SetGCPercent(400) // a page has the memory, and nobody else runs beside the collector
	page := new(play.Page)
	js.Global().Set("sluice", map[string]any{
		"load": js.FuncOf(func(_ js.Value, args []js.Value) any {
			log := make([]byte, args[0].Length())
			js.CopyBytesToGo(log, args[0])
			page.Load(log)
			return nil
		}),
		"play": js.FuncOf(func(_ js.Value, args []js.Value) any {
			var in play.Input
			if err := json.Unmarshal([]byte(args[0].String()), &in); err != nil {
				panic(err) // the page wrote it
			}
			out, err := json.Marshal(page.Play(in))
			if err != nil {
				panic(err) // numbers and texts
			}
			return string(out)
		}),
	})
	select {} // the functions are called from now on
}
