package compat_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	withBrowser = flag.Bool("browser", false, "try the playground in Chromium")
	picture     = flag.String("picture", "", "write a picture of the playground to `FILE`")
)

// browser is a Chromium, and the playground's server.
type browser struct {
	ctx    context.Context // of the browser
	dir    string
	sluice string // the command
}

// newBrowser starts them. They end with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	if !*withBrowser {
		t.Skip("needs Chromium: make browser")
	}
	b := &browser{dir: t.TempDir()}
	b.sluice = filepath.Join(b.dir, "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", b.sluice, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "sluice")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.UserDataDir(filepath.Join(b.dir, "profile")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	require.NoError(t, chromedp.Do(ctx))
	b.ctx = ctx
	return b
}

// serve starts sluice playground, and returns the URL that it prints.
func (b *browser) serve(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), b.sluice, append([]string{"playground"}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		assert.NoError(t, c.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// tab is a tab of the browser. Its methods fail the test on an error.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // errors on the console, and requests to another host
}

// open opens a page in a tab of its own, and waits for its figures. When the test ends, the tab has seen no error, and no
// request to another host.
func (b *browser) open(t *testing.T, page string, before ...step) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(cancel)
	tb := &tab{t: t, ctx: ctx}
	home, _, _ := strings.Cut(page, "#") // what follows may be malformed
	address, err := url.Parse(home)
	require.NoError(t, err)
	require.NoError(t, chromedp.Listen(ctx, func(event any) { tb.observe(event, address.Host) }))
	t.Cleanup(func() {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		assert.Empty(t, tb.faults)
	})
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	tb.do(before...)
	tb.do(chromedp.Navigate(page))
	tb.settle()
	return tb
}

func (tb *tab) observe(event any, host string) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		fault = "console: " + string(e.Type)
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
	case *log.EventEntryAdded:
		fault = "log: " + e.Entry.Text + " " + e.Entry.URL
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != host && u.Scheme != "data" && u.Scheme != "blob" {
			fault = "request: " + e.Request.URL
		}
	}
	if fault != "" {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.faults = append(tb.faults, fault)
	}
}

func (tb *tab) do(steps ...step) {
	tb.t.Helper()
	require.NoError(tb.t, chromedp.Do(tb.ctx, steps...))
}

// settle waits until the page shows what its inputs ask for, and its address holds that.
func (tb *tab) settle() {
	tb.t.Helper()
	tb.poll(`document.body.dataset.asked > 0 && document.body.dataset.shown === document.body.dataset.asked &&
		document.body.dataset.linked === document.body.dataset.asked`)
}

// poll waits until an expression is true.
func (tb *tab) poll(expression string) {
	tb.t.Helper()
	tb.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(5*time.Minute)))
}

// step is something that a tab does.
type step = chromedp.Action[chromedp.Void]

// run runs a script.
func run(script string) step { return chromedp.Evaluate[chromedp.Void](script) }

// choose sets a field that is not written by the keyboard.
func (tb *tab) choose(id, value string) {
	tb.t.Helper()
	tb.do(run(fmt.Sprintf(`{ const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("input")) }`, id, value)))
	tb.settle()
}

// eval returns the value of an expression of the page.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	v, err := chromedp.Run(tb.ctx, chromedp.Evaluate[T](expression))
	require.NoError(tb.t, err)
	return v
}

// write replaces what a field has, by the keyboard.
func (tb *tab) write(selector, text string) {
	tb.t.Helper()
	tb.do(chromedp.Focus(chromedp.CSS(selector)), run(`document.activeElement.select()`), chromedp.KeyEvent(text))
	tb.settle()
}

// figure returns a figure of a limit, such as granted of the first.
func (tb *tab) figure(limit int, name string) string {
	tb.t.Helper()
	return eval[string](tb, `[...document.querySelectorAll(".card")[`+string(rune('0'+limit))+`].querySelectorAll("dl div")]
		.find((d) => d.firstChild.textContent === "`+name+`").lastChild.firstChild.textContent`)
}
