package playground

import (
	"bytes"
	"embed"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/hostname"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate"
)

//go:embed site
var embedded embed.FS

const (
	engine     = "sluice.wasm"
	compressed = engine + ".gz"
)

// policy keeps the page from loading or sending anything elsewhere.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are those of the site's files. What the system says of them is often wrong.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".wasm": "application/wasm",
}

// handler serves the page, and the log if there is one.
func handler(log string) http.Handler {
	site, err := fs.Sub(embedded, "site")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, site, "index.html") })
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, site, r.PathValue("name")) })
	if log != "" {
		mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) { serveLog(w, log) })
	}
	return guarded(mux)
}

// guarded rejects requests that a page from elsewhere may have sent: under a name of its own that leads to this address (DNS
// rebinding), or to read the log from another origin.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		if !hostname.IsLocal(r.Host) {
			http.Error(w, "Host is not an address or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func serveFile(w http.ResponseWriter, r *http.Request, site fs.FS, name string) {
	file := name
	if name == engine {
		file = compressed
	}
	content, err := fs.ReadFile(site, file)
	if err != nil || name == compressed {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	if file != name {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			http.Error(w, "the engine is compressed by gzip", http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// serveLog serves the text of the log.
func serveLog(w http.ResponseWriter, name string) {
	f, err := simulate.Open(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := io.Copy(w, f); err != nil {
		panic(http.ErrAbortHandler) // so that the page does not take a part for all of it
	}
}
