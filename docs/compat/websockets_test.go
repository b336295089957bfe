package compat_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/mux"
	gorilla "github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// WebSockets of each library are upgraded in each router, under a wrapper outside or inside of it, whatever
// its options: the lease is held while the connection talks, as is the client's, and a rejected upgrade is answered.
func TestWebSocketStacks(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	options := maps.Clone(webSocketOptions)
	options["all"] = enforced(webSocketOptions)
	for library, talk := range libraries {
		for router, serve := range routers {
			for option, set := range options {
				t.Run(library+"/"+router+"/"+option, func(t *testing.T) {
					one := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1}))
					global := &httplimit.Policy{Limiter: all(one)}
					o := httplimit.Options{Global: global}
					set(&o)
					s := httptest.NewServer(serve(limits(t, o).Handler, func(w http.ResponseWriter, r *http.Request) {
						assert.Zero(t, one.Available(), "the lease is held")
						talk(t, w, r)
					}))
					defer s.Close()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()

					held := atOnce(t, 1) // for the client's connections
					c, response, err := dialSocket(ctx, t, s, held)
					require.NoError(t, err)
					require.Zero(t, held.Available(), "the client's lease is held while the connection is open")
					require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
					for _, text := range []string{"hello", strings.Repeat("long ", 20_000)} {
						c.SetReadLimit(1 << 20)
						require.NoError(t, c.Write(ctx, websocket.MessageText, []byte(text)))
						_, echoed, err := c.Read(ctx)
						require.NoError(t, err)
						require.Equal(t, text, string(echoed))
					}
					if !global.Shadow {
						_, response, err = dialSocket(ctx, t, s, atOnce(t, 1))
						require.Error(t, err)
						require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
					}
					require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
					require.Equal(t, 1, held.Available())
					require.Eventually(t, func() bool { return one.Available() == 1 }, time.Minute, time.Millisecond)
				})
			}
		}
	}
}

func dialSocket(ctx context.Context, t *testing.T, s *httptest.Server, l core.Limiter) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	tr, err := httplimit.NewTransport(httplimit.TransportOptions{Limiter: all(l), Base: s.Client().Transport})
	require.NoError(t, err)
	return websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http"), &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
}

// libraries upgrade a request, and send back what they receive, until the client closes.
var libraries = map[string]func(t *testing.T, w http.ResponseWriter, r *http.Request){
	"coder": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		t.Helper()
		c, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				assert.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err))
				return
			}
			assert.NoError(t, c.Write(r.Context(), kind, text))
		}
	},
	"gorilla": func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		t.Helper()
		c, err := new(gorilla.Upgrader).Upgrade(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer c.Close()
		for {
			kind, text, err := c.ReadMessage()
			if err != nil {
				assert.True(t, gorilla.IsCloseError(err, gorilla.CloseNormalClosure), err)
				return
			}
			assert.NoError(t, c.WriteMessage(kind, text))
		}
	},
}

type wrapper = func(http.Handler) http.Handler

// routers serve a handler at /, with a middleware outside or inside of them.
var routers = map[string]func(limited wrapper, h http.HandlerFunc) http.Handler{
	"net/http": func(limited wrapper, h http.HandlerFunc) http.Handler {
		m := http.NewServeMux()
		m.Handle("/", limited(h))
		return m
	},
	"chi outside": func(limited wrapper, h http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.Get("/", h)
		return limited(r)
	},
	"chi inside": func(limited wrapper, h http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.With(limited).Get("/", h)
		return r
	},
	"chi logged": func(limited wrapper, h http.HandlerFunc) http.Handler { // its loggers wrap the writer
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(middleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
			})
		}, limited)
		r.Get("/", h)
		return r
	},
	"gorilla/mux": func(limited wrapper, h http.HandlerFunc) http.Handler {
		r := mux.NewRouter()
		r.Use(limited)
		r.HandleFunc("/", h)
		return r
	},
	"gin outside": func(limited wrapper, h http.HandlerFunc) http.Handler {
		r := gin.New()
		r.GET("/", gin.WrapF(h))
		return limited(r)
	},
	"gin inside": func(limited wrapper, h http.HandlerFunc) http.Handler { // gin delays the status of an answer
		r := gin.New()
		r.GET("/", gin.WrapH(limited(h)))
		return r
	},
	"echo handler": func(limited wrapper, h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.GET("/", echo.WrapHandler(limited(h)))
		return e
	},
	"echo outside": func(limited wrapper, h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.GET("/", echo.WrapHandler(h))
		return limited(e)
	},
	"echo inside": func(limited wrapper, h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.Use(echo.WrapMiddleware(limited))
		e.GET("/", echo.WrapHandler(h))
		return e
	},
}

// webSocketOptions set each option on its own.
var webSocketOptions = map[string]func(*httplimit.Options){
	"none":        func(*httplimit.Options) {},
	"x-ratelimit": func(o *httplimit.Options) { o.Headers = httplimit.XRateLimit },
	"draft-11":    func(o *httplimit.Options) { o.Headers = httplimit.Draft11 },
	"problems":    func(o *httplimit.Options) { o.ProblemJSON = true },
	"skip":        func(o *httplimit.Options) { o.Skip = func(*http.Request) bool { return false } },
	"on-rejected": func(o *httplimit.Options) {
		o.OnRejected = func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {}
	},
	"logger":    func(o *httplimit.Options) { o.Logger = slog.New(slog.DiscardHandler) },
	"observer":  func(o *httplimit.Options) { o.Observer = ignore{} },
	"permits":   func(o *httplimit.Options) { o.Global.Cost = func(*http.Request) int { return 1 } },
	"max-wait":  func(o *httplimit.Options) { o.Global.MaxWait = time.Millisecond },
	"fail-open": func(o *httplimit.Options) { o.Global.FailOpen = true },
	"shadow":    func(o *httplimit.Options) { o.Global.Shadow, o.Observer = true, ignore{} },
	"refund":    func(o *httplimit.Options) { o.Global.Refund = func(*http.Request, int) bool { return false } },
	"settle":    func(o *httplimit.Options) { o.Global.Settle = func(*http.Request, int, http.Header) int { return 1 } },
	"upload":    func(o *httplimit.Options) { o.Global.Upload = all(core.Unlimited()) },
	"download":  func(o *httplimit.Options) { o.Global.Download = all(core.Unlimited()) },
}

// enforced sets all of these options but shadow.
func enforced(options map[string]func(*httplimit.Options)) func(*httplimit.Options) {
	return func(o *httplimit.Options) {
		for name, set := range options {
			if name != "shadow" {
				set(o)
			}
		}
	}
}

// ignore is an Observer that does nothing.
type ignore struct{}

func (ignore) Queued(context.Context, string, int)                              {}
func (ignore) Decided(context.Context, string, httplimit.Result, time.Duration) {}
func (ignore) Active(context.Context, string, int)                              {}
func (ignore) Released(context.Context, string, time.Duration)                  {}
