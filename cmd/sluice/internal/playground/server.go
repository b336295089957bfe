package playground

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/site"
)

// policy keeps the page from loading or sending anything elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the content types of the site's files. Those of the system are often wrong.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

const (
	maxLog   = 512 << 20 // bytes
	maxInput = 1 << 20
)

// server serves the page and plays for it.
type server struct {
	log string // the log that it offers, or ""

	mu   sync.Mutex // held while it plays
	id   string     // id of the page whose log it has; another one sends its log again
	page play.Page
}

// handler serves the page, and the log if there is one.
func handler(log string) http.Handler {
	s := &server{log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.serveFile(w, r, "index.html") })
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) { s.serveFile(w, r, r.PathValue("name")) })
	mux.HandleFunc("POST /pages/{id}/log", s.load)
	mux.HandleFunc("POST /pages/{id}/play", s.play)
	mux.HandleFunc("POST /pages/{id}/offered", s.loadOffered)
	return guarded(http.NewCrossOriginProtection().Handler(mux))
}

// guarded rejects requests that a page from elsewhere may have sent: under a name of its own that leads to this address (DNS
// rebinding), or from another origin.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		if !cli.IsLocalHost(r.Host) {
			http.Error(w, "Host is not an address or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	content, err := site.Files.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// load sets the log of a page to the one that it sends.
func (s *server) load(w http.ResponseWriter, r *http.Request) {
	log, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLog))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s.set(w, r, log)
}

// loadOffered sets the log of a page to the one that the server offers.
func (s *server) loadOffered(w http.ResponseWriter, r *http.Request) {
	log, err := os.ReadFile(s.log)
	if err != nil {
		http.Error(w, "this server does not offer it", http.StatusNotFound)
		return
	}
	s.set(w, r, log)
}

func (s *server) set(w http.ResponseWriter, r *http.Request, log []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = r.PathValue("id")
	s.page.Load(log)
	w.WriteHeader(http.StatusNoContent)
}

// play answers the question of a page, unless the page cancels it.
func (s *server) play(w http.ResponseWriter, r *http.Request) {
	var in play.Input
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInput)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := s.answer(r, in)
	if errors.Is(err, errUnknown) {
		http.Error(w, err.Error(), http.StatusGone)
		return
	}
	if err != nil {
		return // the response has no reader
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

var errUnknown = errors.New("unknown page")

// answer plays. When it returns, other pages may ask.
func (s *server) answer(r *http.Request, in play.Input) (play.Output, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != r.PathValue("id") && in.Arrivals == "" {
		return play.Output{}, errUnknown
	}
	return s.page.Play(r.Context(), in)
}
