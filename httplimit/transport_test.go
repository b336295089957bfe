package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// base is a RoundTripper.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

// answer is a response with that status, body, and header fields.
func answer(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: make(http.Header), ContentLength: int64(len(body))}
	r.Body = io.NopCloser(strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// answers gives one answer after the other, the last one again and again.
func answers(all ...func() *http.Response) base {
	return func(r *http.Request) (*http.Response, error) {
		if hasBody := r.Body != nil; hasBody {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		next := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		return next(), nil
	}
}

func transport(t *testing.T, o httplimit.TransportOptions) *http.Client {
	t.Helper()
	tr := core.Must(httplimit.NewTransport(o))
	return &http.Client{Transport: tr}
}

// request makes a request with a body that counts its calls of Close.
func request(t *testing.T, ctx context.Context, url, body string) (*http.Request, *closing) {
	t.Helper()
	c := &closing{Reader: strings.NewReader(body)}
	r := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, c))
	return r, c
}

type closing struct {
	io.Reader

	n, closed int
}

func (c *closing) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func (c *closing) Close() error {
	c.closed++
	if inner, ok := c.Reader.(io.Closer); ok {
		return inner.Close()
	}
	return nil
}

func TestTransportOptions(t *testing.T) {
	_, err := httplimit.NewTransport(httplimit.TransportOptions{MaxRetryAfter: -1, Retries: -2})
	require.EqualError(t, err, "httplimit: TransportOptions.MaxRetryAfter = -1ns, want at least 0\nhttplimit: TransportOptions.Retries = -2, want at least 0")
	r, body := request(t, t.Context(), "http://x", "b")
	_, err = new(httplimit.Transport).RoundTrip(r)
	require.Error(t, err)
	require.Equal(t, 1, body.closed)
}

func TestTransportRefused(t *testing.T) {
	l := perMinute(t, 1)
	c := transport(t, httplimit.TransportOptions{Limiter: all(l), Base: answers(func() *http.Response { return answer(200, "") })})
	_, err := c.Get("http://x")
	require.NoError(t, err)
	r, body := request(t, t.Context(), "http://x", "b")
	_, err = c.Do(r)
	rejected := new(core.RejectedError)
	require.ErrorAs(t, err, &rejected)
	require.NotZero(t, rejected.RetryAfter)
	require.ErrorAs(t, err, new(*url.Error))
	require.Equal(t, 1, body.closed)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, body = request(t, ctx, "http://x", "b")
	_, err = c.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, body.closed)
}

// twoWay is the body of an upgrade.
type twoWay struct{ bytes.Buffer }

func (*twoWay) Close() error      { return nil }
func (*twoWay) CloseWrite() error { return nil }

type oneWay struct{ io.ReadWriter }

func (oneWay) Close() error { return nil }

func TestTransportHoldsTheLease(t *testing.T) {
	errRead := errors.New("cut off")
	for _, c := range []struct {
		name   string
		method string
		answer *http.Response
		held   bool // when RoundTrip has returned
		then   func(*testing.T, *http.Response)
	}{
		{"read to the end", http.MethodGet, answer(200, "abc"), true, func(t *testing.T, r *http.Response) {
			b := core.Must(io.ReadAll(r.Body))
			require.Equal(t, "abc", string(b))
		}},
		{"closed", http.MethodGet, answer(200, "abc"), true, func(_ *testing.T, r *http.Response) { r.Body.Close() }},
		{"fails", http.MethodGet, &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(failing{errRead})}, true, func(t *testing.T, r *http.Response) {
			_, err := r.Body.Read(make([]byte, 1))
			require.Equal(t, errRead, err)
		}},
		{"length unknown", http.MethodGet, &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(strings.NewReader(""))}, true, func(_ *testing.T, r *http.Response) {
			_, _ = r.Body.Read(make([]byte, 1))
		}},
		{"NoBody", http.MethodGet, &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: http.NoBody}, false, nil},
		{"no length", http.MethodGet, answer(200, ""), false, nil},
		{"HEAD", http.MethodHead, answer(200, "abc"), false, nil},
		{"204", http.MethodGet, answer(204, "x"), false, nil},
		{"304", http.MethodGet, answer(304, "x"), false, nil},
		{"101", http.MethodGet, &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: new(twoWay)}, true, func(t *testing.T, r *http.Response) {
			_, err := r.Body.(io.Writer).Write([]byte("x"))
			require.NoError(t, err)
			_ = core.Must(io.ReadAll(r.Body))
			_, ok := r.Body.(interface{ CloseWrite() error })
			require.True(t, ok)
			r.Body.Close()
		}},
		{"101, closed in one", http.MethodGet, &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: oneWay{new(bytes.Buffer)}}, true, func(t *testing.T, r *http.Response) {
			_, ok := r.Body.(interface{ CloseWrite() error })
			require.False(t, ok)
			_, ok = r.Body.(io.Writer)
			require.True(t, ok)
			r.Body.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := atOnce(t, 1, 0)
			tr := core.Must(httplimit.NewTransport(httplimit.TransportOptions{Limiter: all(l), Base: base(func(*http.Request) (*http.Response, error) { return c.answer, nil })}))
			r := core.Must(http.NewRequestWithContext(t.Context(), c.method, "http://x", nil))
			response, err := tr.RoundTrip(r)
			require.NoError(t, err)
			require.Equal(t, c.held, l.Available() == 0)
			if c.then != nil {
				c.then(t, response)
				free(t, l)
				response.Body.Close()
			}
			free(t, l)
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestTransportThatFails(t *testing.T) {
	l := atOnce(t, 1, 0)
	c := transport(t, httplimit.TransportOptions{Limiter: all(l), Base: base(func(r *http.Request) (*http.Response, error) {
		switch r.URL.Host {
		case "nil":
			return nil, nil
		case "panic":
			panic("boom")
		}
		return nil, errBroken
	})})
	_, err := c.Get("http://x")
	require.ErrorIs(t, err, errBroken)
	free(t, l)
	_, err = c.Get("http://nil")
	require.ErrorContains(t, err, "neither")
	free(t, l)
	require.Panics(t, func() { _, _ = c.Get("http://panic") })
	free(t, l)
}

func TestHonorRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name   string
		status int
		header []string
		want   time.Duration
	}{
		{"seconds", 429, []string{"Retry-After", "7"}, 7 * time.Second},
		{"seconds of a 503", 503, []string{"Retry-After", " 7 "}, 7 * time.Second},
		{"a date", 429, []string{"Retry-After", "date 30s"}, 30 * time.Second},
		{"a date that was", 429, []string{"Retry-After", "date -30s"}, 0},
		{"at most MaxRetryAfter", 429, []string{"Retry-After", "3600"}, time.Minute},
		{"huge", 429, []string{"Retry-After", "99999999999999999999999"}, time.Minute},
		{"far", 429, []string{"Retry-After", "date 1000h"}, time.Minute},
		{"nonsense", 429, []string{"Retry-After", "soon"}, 0},
		{"below zero", 429, []string{"Retry-After", "-7"}, 0},
		{"fractions", 429, []string{"Retry-After", "7.5"}, 0},
		{"another status", 200, []string{"Retry-After", "7"}, 0},
		{"another field", 429, []string{"RateLimit", `"a";r=0;t=5`}, 0},
		{"nothing", 429, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i, h := range c.header {
					if text, ok := strings.CutPrefix(h, "date "); ok {
						d, err := time.ParseDuration(text)
						require.NoError(t, err)
						c.header[i] = in(d)
					}
				}
				l := atOnce(t, 1, 5)
				client := transport(t, httplimit.TransportOptions{
					HonorRetryAfter: true, Limiter: all(l),
					Base: answers(func() *http.Response { return answer(c.status, "", c.header...) }, func() *http.Response { return answer(200, "") }),
				})
				start := time.Now()
				_, err := client.Get("http://x.example:80/a")
				require.NoError(t, err)
				_, err = client.Get("http://other.example/")
				require.NoError(t, err)
				require.Zero(t, time.Since(start), "other keys are not delayed")
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, err := client.Get("http://X.example/b")
					assert.NoError(t, err)
				}()
				synctest.Wait()
				require.Equal(t, 1, l.Available(), "no permit is held meanwhile")
				<-done
				heldFor(t, c.want, start)
			})
		})
	}
}

// RetryAfter reads any header of any response, in place of Retry-After.
func TestRetryAfterOfOtherHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := transport(t, httplimit.TransportOptions{
			HonorRetryAfter: true,
			RetryAfter: func(r *http.Response) (time.Duration, bool) {
				d, err := time.ParseDuration(r.Header.Get("Pause"))
				return d, err == nil
			},
			Base: base(func(r *http.Request) (*http.Response, error) {
				return answer(200, "", "Pause", r.URL.Query().Get("pause"), "Retry-After", "30"), nil
			}),
		})
		for pause, want := range map[string]time.Duration{"5s": 5 * time.Second, "1h": time.Minute, "-1s": 0, "": 0} {
			_, err := client.Get("http://x?pause=" + pause)
			require.NoError(t, err)
			start := time.Now()
			_, err = client.Get("http://x")
			require.NoError(t, err)
			heldFor(t, want, start)
		}
	})
}

// Settle is called once the answer's body has ended, with its trailers, for each attempt.
func TestTransportSettle(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer *http.Response
		cost   string
		want   int
	}{
		{"less", answer(200, "abc"), "2", 8},
		{"more", answer(200, "abc"), "12", 0},
		{"as it was", answer(200, "abc"), "-1", 5},
		{"no body", answer(204, ""), "1", 9},
		{"an upgrade", &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: new(twoWay)}, "3", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, called := perMinute(t, 10), 0
			c.answer.Trailer = http.Header{}
			tr := core.Must(httplimit.NewTransport(httplimit.TransportOptions{
				Limiter: all(l), Permits: func(*http.Request) int { return 5 },
				Settle: func(r *http.Response) int {
					called++
					n, err := strconv.Atoi(r.Trailer.Get("Cost"))
					assert.NoError(t, err)
					return n
				},
				Base: base(func(*http.Request) (*http.Response, error) {
					if c.answer.ContentLength == 0 && c.answer.StatusCode != http.StatusSwitchingProtocols {
						c.answer.Trailer.Set("Cost", c.cost)
					}
					return c.answer, nil
				}),
			}))
			r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", nil))
			response, err := tr.RoundTrip(r)
			require.NoError(t, err)
			response.Trailer.Set("Cost", c.cost)
			_, _ = io.ReadAll(response.Body)
			response.Body.Close()
			response.Body.Close()
			require.Equal(t, 1, called)
			require.Equal(t, c.want, l.Available())
		})
	}
}

// The response that asks for a retry is read for 64 KiB and for 50 ms at most, and closed, before the request is sent
// again. It keeps no permit.
func TestResponsesBeforeARetry(t *testing.T) {
	for name, c := range map[string]struct {
		body func() io.Reader
		read int
		took time.Duration
	}{
		"without an end": {func() io.Reader { r, _ := io.Pipe(); return r }, 0, 50 * time.Millisecond},
		"long":           {func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<20)) }, 64 << 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, settled, body := atOnce(t, 1, 0), 0, &closing{Reader: c.body()}
				client := transport(t, httplimit.TransportOptions{
					Retries: 1, Limiter: all(l), Settle: func(*http.Response) int { settled++; return -1 },
					Base: answers(func() *http.Response {
						r := answer(429, "", "Retry-After", "1")
						r.ContentLength, r.Body = -1, body
						return r
					}, func() *http.Response { return answer(200, "") }),
				})
				start := time.Now()
				time.AfterFunc(100*time.Millisecond, func() { assert.Equal(t, 1, l.Available()) })
				response, err := client.Get("http://x")
				require.NoError(t, err)
				require.Equal(t, 200, response.StatusCode)
				heldFor(t, c.took+time.Second, start)
				require.Equal(t, 1, body.closed)
				require.Equal(t, c.read, body.n)
				require.Equal(t, 2, settled)
				free(t, l)
			})
		})
	}
}

func TestHonorRetryAfterAndTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := transport(t, httplimit.TransportOptions{HonorRetryAfter: true, Base: answers(func() *http.Response { return answer(429, "", "Retry-After", "30") })})
		_, err := client.Get("http://x")
		require.NoError(t, err)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		r, body := request(t, ctx, "http://x", "b")
		_, err = client.Do(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		rejected := new(core.RejectedError)
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, 30*time.Second, rejected.RetryAfter)
		require.Zero(t, time.Since(start))
		require.Equal(t, 1, body.closed)

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(4*time.Second, cancel)
		r, body = request(t, ctx, "http://x", "b")
		_, err = client.Do(r)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 4*time.Second, time.Since(start))
		require.Equal(t, 1, body.closed)
	})
}

// heldFor asserts that a hold ended d after start, and that its request went on within the first
// tenth of its length.
func heldFor(t *testing.T, d time.Duration, start time.Time) {
	t.Helper()
	require.GreaterOrEqual(t, time.Since(start), d)
	require.LessOrEqual(t, time.Since(start), d+d/10)
}

func TestRetries(t *testing.T) {
	tooMany := func(header ...string) func() *http.Response {
		return func() *http.Response { return answer(429, "wait", header...) }
	}
	fine := func() *http.Response { return answer(200, "fine") }
	ten := tooMany("Retry-After", "10")
	for _, c := range []struct {
		name    string
		retries int
		body    string // "-": cannot be sent again
		answers []func() *http.Response
		timeout time.Duration
		status  int
		sent    int
		least   time.Duration
		most    time.Duration
	}{
		{"none", 0, "", []func() *http.Response{ten, fine}, 0, 429, 1, 0, 0},
		{"one", 1, "", []func() *http.Response{ten, fine}, 0, 200, 2, 10 * time.Second, 11 * time.Second},
		{"two", 2, "", []func() *http.Response{ten, ten, fine}, 0, 200, 3, 20 * time.Second, 22 * time.Second},
		{"not enough", 1, "", []func() *http.Response{ten, ten, fine}, 0, 429, 2, 10 * time.Second, 11 * time.Second},
		{"a body", 1, "body", []func() *http.Response{ten, fine}, 0, 200, 2, 10 * time.Second, 11 * time.Second},
		{"a body that cannot be sent again", 1, "-", []func() *http.Response{ten, fine}, 0, 429, 1, 0, 0},
		{"503", 1, "", []func() *http.Response{func() *http.Response { return answer(503, "", "Retry-After", "1") }, fine}, 0, 200, 2, time.Second, 1100 * time.Millisecond},
		{"another status", 1, "", []func() *http.Response{func() *http.Response { return answer(500, "", "Retry-After", "1") }, fine}, 0, 500, 1, 0, 0},
		{"without Retry-After", 1, "", []func() *http.Response{tooMany("RateLimit", `"a";r=0;t=1`), fine}, 0, 429, 1, 0, 0},
		{"immediately", 1, "", []func() *http.Response{tooMany("Retry-After", "0"), fine}, 0, 200, 2, 0, 0},
		{"longer than MaxRetryAfter", 1, "", []func() *http.Response{tooMany("Retry-After", "61"), fine}, 0, 429, 1, 0, 0},
		{"as long as MaxRetryAfter", 1, "", []func() *http.Response{tooMany("Retry-After", "60"), fine}, 0, 200, 2, 60 * time.Second, 66 * time.Second},
		{"longer than the deadline", 1, "", []func() *http.Response{ten, fine}, 10*time.Second - 1, 429, 1, 0, 0},
		{"as long as the deadline", 1, "", []func() *http.Response{ten, fine}, 10 * time.Second, 429, 1, 0, 0},
		{"just in time", 1, "", []func() *http.Response{ten, fine}, 10*time.Second + 1, 200, 2, 10 * time.Second, 10*time.Second + 1},
	} {
		for _, honor := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, honor), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var bodies []string
					var open []*closing
					l := atOnce(t, 1, 0)
					under := answers(c.answers...)
					client := transport(t, httplimit.TransportOptions{
						Retries: c.retries, Limiter: all(l), HonorRetryAfter: honor,
						Base: base(func(r *http.Request) (*http.Response, error) {
							assert.Zero(t, l.Available())
							if r.Body != nil {
								b, err := io.ReadAll(r.Body)
								assert.NoError(t, err)
								bodies = append(bodies, string(b))
							}
							response, err := under(r)
							response.Request = r
							open = append(open, &closing{Reader: response.Body})
							response.Body = open[len(open)-1]
							return response, err
						}),
					})
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if c.timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, c.timeout)
					}
					defer cancel()
					r := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, "http://x", nil))
					if c.body != "" {
						r.Body = io.NopCloser(strings.NewReader(c.body))
					}
					if c.body == "body" {
						r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c.body)), nil }
					}
					before := *r
					start := time.Now()
					response, err := client.Transport.RoundTrip(r)
					require.NoError(t, err)
					require.Equal(t, before.Body, r.Body)
					require.Equal(t, c.status, response.StatusCode)
					require.Same(t, r, response.Request, "not a copy")
					took := time.Since(start)
					require.GreaterOrEqual(t, took, c.least)
					require.LessOrEqual(t, took, c.most)
					require.Len(t, open, c.sent)
					for _, b := range open[:c.sent-1] {
						require.Equal(t, 1, b.closed)
						rest, _ := io.ReadAll(b)
						require.Empty(t, rest, "it is drained")
					}
					if c.body != "" {
						want := make([]string, c.sent)
						for i := range want {
							want[i] = c.body
						}
						require.Equal(t, want, bodies)
					}
					response.Body.Close()
					free(t, l)
				})
			})
		}
	}
}

func TestRetriesAreCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atOnce(t, 1, 0)
		client := transport(t, httplimit.TransportOptions{
			Retries: 3, Limiter: all(l),
			Base: answers(func() *http.Response { return answer(429, strings.Repeat("x", 1<<20), "Retry-After", "10") }),
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		r := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, "http://x", strings.NewReader("b")))
		var renewed []*closing
		r.GetBody = func() (io.ReadCloser, error) {
			renewed = append(renewed, &closing{Reader: strings.NewReader("b")})
			return renewed[len(renewed)-1], nil
		}
		start := time.Now()
		_, err := client.Transport.RoundTrip(r)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Len(t, renewed, 1)
		require.Equal(t, 1, renewed[0].closed)
		free(t, l)
	})
}

func TestTransportBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := func() httplimit.Limiter {
			l := core.Must(core.NewTokenBucket(core.PerSecond(1000, 10)))
			return all(l)
		}
		start := time.Now()
		var sent time.Duration
		client := transport(t, httplimit.TransportOptions{Upload: bucket(), Download: bucket(), Base: base(func(r *http.Request) (*http.Response, error) {
			_, err := io.ReadFull(r.Body, make([]byte, 2010))
			assert.NoError(t, err)
			again, err := r.GetBody()
			assert.NoError(t, err)
			assert.NoError(t, again.Close())
			sent = time.Since(start)
			assert.NoError(t, r.Body.Close())
			response := answer(200, strings.Repeat("x", 1010))
			response.Request = r
			return response, nil
		})})
		r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", strings.NewReader(strings.Repeat("x", 2010))))
		response, err := client.Transport.RoundTrip(r)
		require.NoError(t, err)
		require.Same(t, r, response.Request)
		require.Equal(t, 2*time.Second, sent)
		_, err = io.ReadFull(response.Body, make([]byte, 1010))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

type idle struct {
	http.RoundTripper

	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

func TestCloseIdleConnections(t *testing.T) {
	i := new(idle)
	transport(t, httplimit.TransportOptions{Base: i}).CloseIdleConnections()
	require.True(t, i.closed)
	transport(t, httplimit.TransportOptions{Base: base(nil)}).CloseIdleConnections()
}

// A function of the user's that panics after the response has come costs neither the permit nor the connection.
func TestTransportSurvivesPanicsAfterTheResponse(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		prepare func(*httplimit.TransportOptions, *http.Request)
	}{
		"RetryAfter": {http.StatusOK, func(o *httplimit.TransportOptions, _ *http.Request) {
			o.HonorRetryAfter = true
			o.RetryAfter = func(*http.Response) (time.Duration, bool) { panic("boom") }
		}},
		"GetBody": {http.StatusTooManyRequests, func(o *httplimit.TransportOptions, r *http.Request) {
			o.Retries = 1
			r.GetBody = func() (io.ReadCloser, error) { panic("boom") }
		}},
		"the key of Download": {http.StatusOK, func(o *httplimit.TransportOptions, _ *http.Request) {
			o.Download = core.Must(partition.New(partition.Options[*http.Request, string]{
				Key: func(*http.Request) string { panic("boom") },
				New: func(string) (core.Limiter, error) { return core.Unlimited(), nil },
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := atOnce(t, 1, 0)
			body := &closing{Reader: strings.NewReader("body")}
			o := httplimit.TransportOptions{Limiter: all(l), Base: base(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: c.status, Header: http.Header{"Retry-After": {"0"}}, ContentLength: -1,
					Body: body, Request: r,
				}, nil
			})}
			r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", strings.NewReader("request")))
			c.prepare(&o, r)
			tr := core.Must(httplimit.NewTransport(o))
			require.PanicsWithValue(t, "boom", func() {
				if response, err := tr.RoundTrip(r); err == nil {
					_ = response.Body.Close()
				}
			})
			require.Equal(t, 1, body.closed)
			free(t, l)
		})
	}
}
