package compat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// simulated is what sluice simulate --json prints.
type simulated struct {
	Requests, Granted, Queued, Rejected int
	Wait                                struct{ P50, P99, Max float64 }
}

func (b *browser) simulate(t *testing.T, args ...string) simulated {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), b.sluice, append([]string{"simulate", "--json"}, args...)...).Output()
	require.NoError(t, err)
	var s simulated
	require.NoError(t, json.Unmarshal(out, &s))
	return s
}

// agrees finds the figures of a limit to be those of sluice simulate.
func (tb *tab) agrees(limit int, want simulated) {
	tb.t.Helper()
	for name, n := range map[string]int{"granted": want.Granted, "rejected": want.Rejected, "waited": want.Queued} {
		got, err := strconv.Atoi(strings.ReplaceAll(tb.figure(limit, name), ",", ""))
		assert.NoError(tb.t, err)
		assert.Equal(tb.t, n, got, name)
	}
	for name, s := range map[string]float64{"wait p50": want.Wait.P50, "wait p99": want.Wait.P99} {
		assert.Equal(tb.t, durationText(s), tb.figure(limit, name), name)
	}
}

// durationText is how the page writes seconds.
func durationText(s float64) string {
	unit := "s"
	switch {
	case s == 0:
		return "0"
	case s < 1e-3:
		s, unit = s*1e6, "µs"
	case s < 1:
		s, unit = s*1e3, "ms"
	}
	digits := 2 - int(math.Floor(math.Log10(s)))
	v, _ := strconv.ParseFloat(strconv.FormatFloat(s, 'f', max(digits, 0), 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}

const logOfThree = `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1
192.0.2.2 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1
192.0.2.1 - - [10/Oct/2025:13:55:37 +0000] "GET / HTTP/1.1" 200 1
`

func TestPlayground(t *testing.T) {
	b := newBrowser(t)
	log := filepath.Join(b.dir, "access.log")
	require.NoError(t, os.WriteFile(log, []byte(logOfThree), 0o600))
	home := b.serve(t)
	minute := home + "#limit=100/s+burst+50&limit=sliding+100/1s&arrivals=poisson:120/s,1m"
	t.Run("the first page", func(t *testing.T) {
		tb := b.open(t, home)
		tb.agrees(0, b.simulate(t, "--limit", "100/s burst 50 queue 200", "--arrivals", "day:80/s,1h", "--takes", "100ms"))
		tb.agrees(1, b.simulate(t, "--limit", "concurrency 10", "--arrivals", "day:80/s,1h", "--takes", "100ms"))
		tb.choose("spread", "exponential:")
		tb.write("#takes", "300ms")
		tb.agrees(1, b.simulate(t, "--limit", "concurrency 10", "--arrivals", "day:80/s,1h", "--takes", "exponential:300ms"))
		again := b.open(t, eval[string](tb, `location.href`))
		assert.Equal(t, eval[string](tb, everything), eval[string](again, everything))
	})
	t.Run("nothing is red before there is a log", func(t *testing.T) {
		tb := b.open(t, minute)
		tb.choose("kind", "log")
		assert.Empty(t, eval[string](tb, `[...document.querySelectorAll(".error")].map((e) => e.textContent).join("")`))
		assert.Contains(t, eval[string](tb, `document.getElementById("empty").textContent`), "Choose a log")
	})
	t.Run("a bad rate leaves the charts", func(t *testing.T) {
		tb := b.open(t, minute)
		tb.write("#rate", "fast")
		assert.Equal(t, `"fast" is not a rate such as 100/s`, eval[string](tb, `document.getElementById("error").textContent`))
		assert.True(t, eval[bool](tb, `document.querySelector(".chart svg").getBoundingClientRect().height > 100`))
		assert.True(t, eval[bool](tb, `document.querySelector(".result").inert`))
		tb.write("#rate", "120/s")
		assert.False(t, eval[bool](tb, `document.querySelector(".result").inert`))
	})
	t.Run("who was rejected", func(t *testing.T) {
		tb := b.open(t, home+"#limit=10/s&key=client&arrivals=poisson:200/s,1m,7")
		assert.Contains(t, eval[string](tb, `document.querySelector(".rejected-keys").textContent`), "Rejected most: client 1 (")
	})
	t.Run("figures follow the limit", func(t *testing.T) {
		tb := b.open(t, minute)
		tb.agrees(0, b.simulate(t, "--limit", "100/s burst 50", "--arrivals", "poisson:120/s,1m"))
		tb.agrees(1, b.simulate(t, "--limit", "sliding 100/1s", "--arrivals", "poisson:120/s,1m"))
		tb.write(".limit", "80/s burst 5 queue 30")
		tb.agrees(0, b.simulate(t, "--limit", "80/s burst 5 queue 30", "--arrivals", "poisson:120/s,1m"))
		tb.write("#rate", "200/s")
		tb.write("#clients", "7")
		tb.choose("key", "client")
		tb.agrees(0, b.simulate(t, "--limit", "80/s burst 5 queue 30", "--arrivals", "poisson:200/s,1m,7", "--key", "client"))
	})
	t.Run("an error is shown at its word", func(t *testing.T) {
		tb := b.open(t, minute)
		tb.write(".limit", "100/s brust 50")
		assert.Equal(t, `"brust": unknown word, want burst, queue, oldest-first, newest-first or fair-share`, eval[string](tb, `document.querySelector(".card .error").textContent`))
		assert.Equal(t, "brust", eval[string](tb, `document.querySelector(".mirror mark").textContent`))
		assert.Equal(t, "true", eval[string](tb, `document.querySelector(".limit").getAttribute("aria-invalid")`))
		tb.write("#time", "soon")
		assert.Contains(t, eval[string](tb, `document.getElementById("error").textContent`), `"soon" is not a duration`)
		assert.Equal(t, "true", eval[string](tb, `document.getElementById("time").getAttribute("aria-invalid")`))
		tb.write("#time", "10s")
		tb.write(".limit", "100/s burst 50")
		assert.Empty(t, eval[string](tb, `[...document.querySelectorAll(".error, .mirror")].map((e) => e.textContent).join("")`))
		tb.agrees(0, b.simulate(t, "--limit", "100/s burst 50", "--arrivals", "poisson:120/s,10s"))
	})
	t.Run("a link holds the state", func(t *testing.T) {
		tb := b.open(t, minute)
		tb.write(".limit", "fixed 50/1s queue 9 newest-first")
		tb.write("#seed", "5")
		tb.do(chromedp.Click(chromedp.CSS("#add")))
		tb.settle()
		link := eval[string](tb, `location.href`)
		body := eval[string](tb, everything)
		again := b.open(t, link)
		assert.Equal(t, body, eval[string](again, everything))
		assert.Equal(t, link, eval[string](again, `location.href`))
	})
	t.Run("a pasted log is in the link", func(t *testing.T) {
		tb := b.open(t, home+"#limit=1/s&key=ip&log=")
		tb.choose("text", logOfThree)
		want := b.simulate(t, "--limit", "1/s", "--key", "ip", log)
		tb.agrees(0, want)
		again := b.open(t, eval[string](tb, `location.href`))
		again.agrees(0, want)
	})
	t.Run("LOG is offered", func(t *testing.T) {
		tb := b.open(t, b.serve(t, log))
		tb.agrees(0, b.simulate(t, "--limit", "100/s burst 50 queue 200", log))
		assert.Contains(t, eval[string](tb, `document.getElementById("log-name").textContent`), "access.log")
	})
	t.Run("a log is chosen and dropped", func(t *testing.T) {
		tb := b.open(t, home+"#limit=1/s")
		want := b.simulate(t, "--limit", "1/s", log)
		tb.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{log}))
		tb.poll(`document.getElementById("status").value.startsWith("3 requests")`)
		tb.agrees(0, want)
		tb.do(run(`{ const d = new DataTransfer(); d.items.add(new File([` + strconv.Quote(logOfThree+logOfThree) + `], "two.log"));
			document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true })) }`))
		tb.poll(`document.getElementById("status").value.startsWith("6 requests")`)
		assert.Equal(t, "two.log", eval[string](tb, `document.getElementById("log-name").textContent`))
	})
	t.Run("a copied link plays the same", func(t *testing.T) {
		tb := b.open(t, home+"#limit=80/s+burst+5+queue+30&key=client&arrivals=poisson:200/s,10s,7&seed=3")
		tb.do(run(`navigator.clipboard.writeText = async (text) => { window.copied = text }`))
		copied := func(selector string) string {
			tb.do(chromedp.Click(chromedp.CSS(selector)))
			tb.poll(`window.copied !== undefined`)
			return eval[string](tb, `{ const c = window.copied; delete window.copied; c }`)
		}
		assert.Contains(t, copied(`[data-as="go"]`), `spec.Parse("80/s burst 5 queue 30")`)
		assert.Contains(t, copied(`[data-as="yaml"]`), `api: {key: ip, limit: 80/s burst 5 queue 30, max-wait: 1s}`)
		command := strings.TrimSuffix(copied(`[data-as="command"]`), "\n")
		assert.Equal(t, "sluice simulate --limit '80/s burst 5 queue 30' --key client --arrivals poisson:200/s,10s,7 --seed 3", command)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", filepath.Dir(b.sluice)+"/"+command+" --json").Output()
		require.NoError(t, err)
		var want simulated
		require.NoError(t, json.Unmarshal(out, &want))
		tb.agrees(0, want)
		assert.Equal(t, eval[string](tb, `location.href`), copied("#share"))
	})
	t.Run("by keyboard", func(t *testing.T) { byKeyboard(t, b, home) })
	t.Run("what takes long is stopped", func(t *testing.T) { stopped(t, b, home) })
	t.Run("a log that cannot be read", func(t *testing.T) {
		tb := b.open(t, home)
		tb.do(run(`{ const d = new DataTransfer(), f = new File(["x"], "gone.log");
			f.arrayBuffer = undefined;
			Object.defineProperty(f, "size", { value: 2 ** 30 });
			d.items.add(f);
			const e = new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true });
			Object.defineProperty(e, "dataTransfer", { value: { types: ["Files"], files: [f] } });
			document.body.dispatchEvent(e) }`))
		tb.settle()
		assert.Contains(t, eval[string](tb, `document.getElementById("error").textContent`), "larger than 512 MiB")
		assert.True(t, eval[bool](tb, `document.getElementById("error").offsetHeight > 0`))
	})
	t.Run("links that were edited", func(t *testing.T) {
		for fragment, message := range map[string]string{
			"#limit=" + strings.Repeat("9", 500_000):                    "",
			"#%zz&limit=%ff%fe&key=moon&seed=-1&arrivals=%00":           `"moon" is not a key; use ip`,
			"#log=&text=" + strings.Repeat("A", 400_000):                "Choose a log",
			"#log=%3Cimg+src=x+onerror=alert(1)%3E&text=!!":             "Choose a log",
			"#arrivals=bursts:1000000000/10000h,1s":                     "more than 5000000 requests",
			"#arrivals=bursts:1/1500000h,2500000h&limit=1/s&limit=1/ns": "more than 100 years",
		} {
			tb := b.open(t, home+fragment)
			assert.Contains(t, eval[string](tb, `document.getElementById("error").textContent + document.getElementById("empty").textContent`), message)
			assert.Equal(t, 1, eval[int](tb, `document.querySelectorAll("img").length`), "nothing is taken as HTML")
			tb.write(".limit", "1/s") // the page still works
			assert.Empty(t, eval[string](tb, `document.querySelector(".card .error").textContent`))
		}
	})
	t.Run("narrow and dark", func(t *testing.T) { narrowAndDark(t, b, home) })
	t.Run("a million arrivals", func(t *testing.T) {
		tb := b.open(t, home+"#limit=9000/s+burst+100&arrivals=constant:10/s,1s")
		for _, limit := range []string{"9000/s burst 100", "9000/s burst 100 queue 500", "sliding 9000/1s"} {
			tb.write(".limit", limit)
			tb.write("#rate", "10000/s")
			tb.write("#time", "100s")
			t.Logf("%s: %s", limit, eval[string](tb, `document.getElementById("status").value`))
			assert.Equal(t, "1,000,000", eval[string](tb, `document.getElementById("status").value.split(" ")[0]`))
			tb.write("#time", "1s")
		}
	})
}

// everything is all inputs and figures of the page.
const everything = `[...document.querySelectorAll("input, select, textarea")].map((e) => e.value).join("|") +
	[...document.querySelectorAll("dl, table, .error")].map((e) => e.textContent).join("|")`

// byKeyboard adds a limit, changes it, moves through a chart and opens the table without a pointer.
func byKeyboard(t *testing.T, b *browser, home string) {
	t.Helper()
	tb := b.open(t, home+"#limit=100/s&arrivals=poisson:120/s,1m")
	reach := func(what string) {
		t.Helper()
		for range 60 {
			tb.do(chromedp.KeyEvent(kb.Tab))
			if eval[bool](tb, `document.activeElement.matches(`+strconv.Quote(what)+`)`) {
				return
			}
		}
		t.Fatalf("Tab does not lead to %s", what)
	}
	reach(".skip")
	tb.do(chromedp.KeyEvent(kb.Enter))
	assert.True(t, eval[bool](tb, `document.activeElement.matches(".limit") && location.hash.startsWith("#limit=100/s")`), "the state is kept")
	assert.Equal(t, 1, eval[int](tb, `document.querySelectorAll(".card").length`))
	assert.True(t, eval[bool](tb, `document.querySelector(".card").offsetWidth > 0.8 * innerWidth`), "one limit has all of the width")
	reach("#add")
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.settle()
	tb.do(chromedp.KeyEvent("10/s")) // the new limit is selected
	tb.settle()
	tb.agrees(1, b.simulate(t, "--limit", "10/s", "--arrivals", "poisson:120/s,1m"))
	reach(".chart")
	tb.do(chromedp.KeyEvent(kb.ArrowRight + kb.ArrowRight))
	assert.Contains(t, eval[string](tb, `document.activeElement.nextElementSibling.textContent`), "/s arrived")
	reach("summary")
	tb.do(chromedp.KeyEvent(kb.Enter))
	assert.True(t, eval[bool](tb, `document.querySelector("details").open`))
	assert.Equal(t, "10 of 30 or so rows", rows(eval[int](tb, `document.querySelectorAll("tbody tr").length`)))
	granted := eval[int](tb, `[...document.querySelectorAll("tbody tr")].reduce((n, r) => n + Number(r.cells[2].textContent.replace(",", "")), 0)`)
	assert.Equal(t, tb.figure(0, "granted"), thousands(granted), "the table has the figures of the chart")
	reach(".remove")
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.settle()
	assert.Equal(t, 1, eval[int](tb, `document.querySelectorAll(".card").length`))
	assert.True(t, eval[bool](tb, `document.activeElement.matches(".limit")`), "the focus is not lost")
}

// stopped stops what takes long, and lets a change stop it.
func stopped(t *testing.T, b *browser, home string) {
	t.Helper()
	tb := b.open(t, home+"#limit=1/s&limit=2/s&arrivals=constant:1/s,1s")
	instants := `[...document.querySelectorAll(".card:first-child svg text")].filter((e) => e.textContent === "0.000 s").length`
	assert.Equal(t, 1, eval[int](tb, instants), "no instant stands twice below a chart")
	// There is more to play than any machine plays before Stop appears.
	long := `const rate = document.getElementById("rate"); rate.value = "4900000/s"; rate.dispatchEvent(new Event("input"))`
	tb.do(run(`{ ` + long + ` }`))
	tb.poll(`(() => { const stop = document.getElementById("stop"); if (stop.hidden) return false; stop.click(); return true })()`)
	assert.Equal(t, "Stopped. The next change plays again.", eval[string](tb, `document.getElementById("status").value`))
	assert.True(t, eval[bool](tb, `document.getElementById("stop").hidden && document.activeElement.id === "kind"`))
	tb.write("#rate", "9/s")
	assert.Equal(t, "1", tb.figure(0, "granted"))
	tb.do(run(`{ ` + long + ` }`))
	tb.poll(`!document.getElementById("stop").hidden`)
	tb.write("#rate", "7/s")
	assert.Equal(t, "7", eval[string](tb, `document.getElementById("status").value.split(" ")[0]`))
}

func rows(n int) string {
	if n < 10 || n > 40 {
		return fmt.Sprint(n, " rows")
	}
	return "10 of 30 or so rows"
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// narrowAndDark finds no horizontal scroll at 360 pixels, and dark colors where they are asked for.
func narrowAndDark(t *testing.T, b *browser, home string) {
	t.Helper()
	dark := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		return err
	})
	tb := b.open(t, home, chromedp.EmulateViewport(360, 740), dark)
	assert.Equal(t, 360, eval[int](tb, `document.documentElement.scrollWidth`))
	tb.do(chromedp.Click(chromedp.CSS("summary")))
	assert.Equal(t, 360, eval[int](tb, `document.documentElement.scrollWidth`))
	tb.choose("kind", "log")
	assert.Equal(t, 360, eval[int](tb, `document.documentElement.scrollWidth`))
	brightness := `(selector, what) => getComputedStyle(document.querySelector(selector))[what].match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3`
	assert.Less(t, eval[float64](tb, `(`+brightness+`)("body", "backgroundColor")`), 60.0)
	assert.Greater(t, eval[float64](tb, `(`+brightness+`)("body", "color")`), 180.0)
}

// TestPlaygroundPicture writes the picture at the top of the README: what the playground opens.
func TestPlaygroundPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("no -picture: make playground-picture")
	}
	b := newBrowser(t)
	tb := b.open(t, b.serve(t), chromedp.EmulateViewport(1180, 780))
	png, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(*picture, png, 0o666))
}
