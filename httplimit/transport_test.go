package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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

// A request that is not sent is closed, whether the limiter rejects it or a hold, that of Retry-After, outlasts it.
func TestTransportDoesNotSend(t *testing.T) {
	for name, c := range map[string]struct {
		header            []string // of the response before
		deadline, cancels time.Duration
		want              error
		took, retryAfter  time.Duration
	}{
		"rejected":                   {nil, time.Hour, time.Hour, core.ErrRejected, 0, time.Minute},
		"canceled":                   {nil, time.Hour, 0, context.Canceled, 0, 0},
		"a hold beyond the deadline": {[]string{"Retry-After", "30"}, 29 * time.Second, time.Hour, context.DeadlineExceeded, 0, 30 * time.Second},
		"canceled during a hold":     {[]string{"Retry-After", "30"}, time.Hour, 4 * time.Second, context.Canceled, 4 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := transport(t, httplimit.TransportOptions{
					HonorRetryAfter: true, Limiter: all(perMinute(t, 1)),
					Base: answers(func() *http.Response { return answer(429, "", c.header...) }),
				})
				_, err := client.Get("http://x")
				require.NoError(t, err)
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancels == 0 {
					cancel()
				}
				time.AfterFunc(c.cancels, cancel)
				ctx, stop := context.WithTimeout(ctx, c.deadline)
				defer stop()
				r, body := request(t, ctx, "http://x", "b")
				_, err = client.Do(r)
				require.ErrorIs(t, err, c.want)
				require.ErrorAs(t, err, new(*url.Error))
				rejected := new(core.RejectedError)
				require.Equal(t, c.retryAfter > 0, errors.As(err, &rejected))
				require.Equal(t, c.retryAfter, rejected.RetryAfter)
				require.Equal(t, c.took, time.Since(start))
				require.Equal(t, 1, body.closed)
			})
		})
	}
}

// twoWay is the body of an upgrade.
type twoWay struct{ bytes.Buffer }

func (*twoWay) Close() error      { return nil }
func (*twoWay) CloseWrite() error { return nil }

type oneWay struct{ io.ReadWriter }

func (oneWay) Close() error { return nil }

// The lease is held, and settled once, with the trailers, when the body of the response has ended.
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
			slots, rate := atOnce(t, 3, 0), perMinute(t, 10)
			l := core.Must(core.Chain(slots, rate))
			var costs []string
			c.answer.Trailer = http.Header{}
			if !c.held {
				c.answer.Trailer.Set("Cost", "2")
			}
			tr := core.Must(httplimit.NewTransport(httplimit.TransportOptions{
				Limiter: all(l), Cost: func(*http.Request) int { return 3 },
				Settle: func(r *http.Response) int { costs = append(costs, r.Trailer.Get("Cost")); return 2 },
				Base:   base(func(*http.Request) (*http.Response, error) { return c.answer, nil }),
			}))
			r := core.Must(http.NewRequestWithContext(t.Context(), c.method, "http://x", nil))
			response, err := tr.RoundTrip(r)
			require.NoError(t, err)
			require.Equal(t, c.held, slots.Available() == 0)
			response.Trailer.Set("Cost", "2")
			if c.then != nil {
				c.then(t, response)
				free(t, slots)
				response.Body.Close()
			}
			free(t, slots)
			require.Equal(t, []string{"2"}, costs)
			require.Equal(t, 8, rate.Available(), "settled to 2")
		})
	}
}

// failing is a body that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestHonorRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name          string
		status        int
		header, value string
		want          time.Duration
	}{
		{"seconds", 429, "Retry-After", "7", 7 * time.Second},
		{"seconds of a 503", 503, "Retry-After", " 7 ", 7 * time.Second},
		{"a date", 429, "Retry-After", "date 30s", 30 * time.Second},
		{"a date that was", 429, "Retry-After", "date -30s", 0},
		{"at most MaxRetryAfter", 429, "Retry-After", "3600", time.Minute},
		{"huge", 429, "Retry-After", "99999999999999999999999", time.Minute},
		{"longer than a Duration", 429, "Retry-After", "10000000000", time.Minute},
		{"far", 429, "Retry-After", "date 1000h", time.Minute},
		{"nonsense", 429, "Retry-After", "soon", 0},
		{"below zero", 429, "Retry-After", "-7", 0},
		{"fractions", 429, "Retry-After", "7.5", 0},
		{"another status", 200, "Retry-After", "7", 0},
		{"another field", 429, "RateLimit", `"a";r=0;t=5`, 0},
		{"the user's header", 200, "Pause", "5s", 5 * time.Second},
		{"the user's header at most MaxRetryAfter", 200, "Pause", "1h", time.Minute},
		{"the user's header below zero", 200, "Pause", "-1s", 0},
		{"the user's header without a time", 200, "Pause", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if text, ok := strings.CutPrefix(c.value, "date "); ok {
					d, err := time.ParseDuration(text)
					require.NoError(t, err)
					c.value = in(d)
				}
				l, first := atOnce(t, 1, 5), answer(c.status, "", c.header, c.value)
				o := httplimit.TransportOptions{
					HonorRetryAfter: true, Limiter: all(l),
					Base: answers(func() *http.Response { return first }, func() *http.Response { return answer(200, "") }),
				}
				if c.header == "Pause" {
					first.Header.Set("Retry-After", "30")
					o.RetryAfter = func(r *http.Response) (time.Duration, bool) {
						d, err := time.ParseDuration(r.Header.Get("Pause"))
						return d, err == nil
					}
				}
				client := transport(t, o)
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

// A response that asks for a retry is read for 64 KiB and for 50 ms at most, and closed, before the request is sent
// again. It keeps no permit meanwhile, and each attempt is settled.
func TestRetries(t *testing.T) {
	type answered = []func() *http.Response
	after := func(status int, header ...string) func() *http.Response {
		return func() *http.Response { return answer(status, "wait", header...) }
	}
	fine := func() *http.Response { return answer(200, "fine") }
	ten := after(429, "Retry-After", "10")
	long := func() *http.Response { return answer(429, strings.Repeat("x", 1<<20), "Retry-After", "10") }
	endless := func() *http.Response {
		r := ten()
		r.ContentLength = -1
		r.Body, _ = io.Pipe()
		return r
	}
	for _, c := range []struct {
		name     string
		retries  int
		body     string // "-": cannot be sent again
		answers  answered
		deadline time.Duration
		cancel   time.Duration
		status   int // 0: context.Canceled
		sent     int
		least    time.Duration
		most     time.Duration
		read     int // of the first response, before a retry
	}{
		{"none", 0, "", answered{ten, fine}, 0, 0, 429, 1, 0, 0, 0},
		{"one", 1, "", answered{ten, fine}, 0, 0, 200, 2, 10 * time.Second, 11 * time.Second, 4},
		{"two", 2, "", answered{ten, ten, fine}, 0, 0, 200, 3, 20 * time.Second, 22 * time.Second, 4},
		{"not enough", 1, "", answered{ten, ten, fine}, 0, 0, 429, 2, 10 * time.Second, 11 * time.Second, 4},
		{"a body", 1, "body", answered{ten, fine}, 0, 0, 200, 2, 10 * time.Second, 11 * time.Second, 4},
		{"a body that cannot be sent again", 1, "-", answered{ten, fine}, 0, 0, 429, 1, 0, 0, 0},
		{"503", 1, "", answered{after(503, "Retry-After", "1"), fine}, 0, 0, 200, 2, time.Second, 1100 * time.Millisecond, 4},
		{"another status", 1, "", answered{after(500, "Retry-After", "1"), fine}, 0, 0, 500, 1, 0, 0, 0},
		{"without Retry-After", 1, "", answered{after(429, "RateLimit", `"a";r=0;t=1`), fine}, 0, 0, 429, 1, 0, 0, 0},
		{"immediately", 1, "", answered{after(429, "Retry-After", "0"), fine}, 0, 0, 200, 2, 0, 0, 4},
		{"longer than MaxRetryAfter", 1, "", answered{after(429, "Retry-After", "61"), fine}, 0, 0, 429, 1, 0, 0, 0},
		{"as long as MaxRetryAfter", 1, "", answered{after(429, "Retry-After", "60"), fine}, 0, 0, 200, 2, 60 * time.Second, 66 * time.Second, 4},
		{"longer than the deadline", 1, "", answered{ten, fine}, 10*time.Second - 1, 0, 429, 1, 0, 0, 0},
		{"as long as the deadline", 1, "", answered{ten, fine}, 10 * time.Second, 0, 429, 1, 0, 0, 0},
		{"just in time", 1, "", answered{ten, fine}, 10*time.Second + 1, 0, 200, 2, 10 * time.Second, 10*time.Second + 1, 4},
		{"canceled meanwhile", 3, "body", answered{ten, fine}, 0, 3 * time.Second, 0, 1, 3 * time.Second, 3 * time.Second, 4},
		{"a long response", 1, "", answered{long, fine}, 0, 0, 200, 2, 10 * time.Second, 11 * time.Second, 64 << 10},
		{"a response without an end, just in time", 1, "", answered{endless, fine}, 10*time.Second + 1, 0, 200, 2, 10 * time.Second, 10*time.Second + 1, 0},
		{"a response without an end", 1, "", answered{endless, fine}, 0, 0, 200, 2, 10 * time.Second, 11050 * time.Millisecond, 0},
	} {
		for _, honor := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, honor), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sent []string
					var bodies, responses []*closing
					l, settled := atOnce(t, 1, 0), 0
					newBody := func() (io.ReadCloser, error) {
						bodies = append(bodies, &closing{Reader: strings.NewReader(c.body)})
						return bodies[len(bodies)-1], nil
					}
					under := answers(c.answers...)
					client := transport(t, httplimit.TransportOptions{
						Retries: c.retries, Limiter: all(l), HonorRetryAfter: honor, Settle: func(*http.Response) int { settled++; return -1 },
						Base: base(func(r *http.Request) (*http.Response, error) {
							assert.Zero(t, l.Available())
							if r.Body != nil {
								b, err := io.ReadAll(r.Body)
								assert.NoError(t, err)
								sent = append(sent, string(b))
							}
							response, err := under(r)
							response.Request = r
							responses = append(responses, &closing{Reader: response.Body})
							response.Body = responses[len(responses)-1]
							return response, err
						}),
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.cancel > 0 {
						time.AfterFunc(c.cancel, cancel)
					}
					if c.deadline > 0 {
						ctx, cancel = context.WithTimeout(ctx, c.deadline)
						defer cancel()
					}
					r := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, "http://x", nil))
					if c.body != "" {
						r.Body = core.Must(newBody())
					}
					if c.body == "body" {
						r.GetBody = newBody
					}
					before, start := *r, time.Now()
					time.AfterFunc(100*time.Millisecond, func() { assert.Equal(t, 1, l.Available(), "no permit is held meanwhile") })
					response, err := client.Transport.RoundTrip(r)
					took, read := time.Since(start), responses[0].n
					require.GreaterOrEqual(t, took, c.least)
					require.LessOrEqual(t, took, c.most)
					require.Equal(t, before.Body, r.Body)
					require.Len(t, responses, c.sent)
					if c.status == 0 {
						require.Equal(t, context.Canceled, err)
					} else {
						require.NoError(t, err)
						require.Equal(t, c.status, response.StatusCode)
						require.Same(t, r, response.Request, "not a copy")
						response.Body.Close()
					}
					for _, b := range append(responses, bodies...) {
						require.Equal(t, 1, b.closed)
					}
					require.Equal(t, c.read, read)
					if c.body != "" {
						require.Equal(t, slices.Repeat([]string{c.body}, c.sent), sent)
					}
					require.Equal(t, c.sent, settled)
					free(t, l)
				})
			})
		}
	}
}

// heldFor asserts that a hold ended d after start, and that its request went on within the first
// tenth of its length.
func heldFor(t *testing.T, d time.Duration, start time.Time) {
	t.Helper()
	require.GreaterOrEqual(t, time.Since(start), d)
	require.LessOrEqual(t, time.Since(start), d+d/10)
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
			_, err = io.ReadFull(again, make([]byte, 1000))
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
		require.Equal(t, 3*time.Second, sent)
		_, err = io.ReadFull(response.Body, make([]byte, 1010))
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, time.Since(start))
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

// A Base that fails, or a function of the user's that panics, before or after the response has come, costs neither the
// permit nor the connection.
func TestTransportSurvivesFailures(t *testing.T) {
	fails := func(o *httplimit.TransportOptions, err error) {
		o.Base = base(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	for name, c := range map[string]struct {
		status  int // 0: no response comes
		want    string
		prepare func(*httplimit.TransportOptions, *http.Request)
	}{
		"an error": {0, errBroken.Error(), func(o *httplimit.TransportOptions, _ *http.Request) { fails(o, errBroken) }},
		"neither":  {0, "neither", func(o *httplimit.TransportOptions, _ *http.Request) { fails(o, nil) }},
		"Base": {0, "", func(o *httplimit.TransportOptions, _ *http.Request) {
			o.Base = base(func(*http.Request) (*http.Response, error) { panic("boom") })
		}},
		"RetryAfter": {http.StatusOK, "", func(o *httplimit.TransportOptions, _ *http.Request) {
			o.HonorRetryAfter = true
			o.RetryAfter = func(*http.Response) (time.Duration, bool) { panic("boom") }
		}},
		"GetBody": {http.StatusTooManyRequests, "", func(o *httplimit.TransportOptions, r *http.Request) {
			o.Retries = 1
			r.GetBody = func() (io.ReadCloser, error) { panic("boom") }
		}},
		"the key of Download": {http.StatusOK, "", func(o *httplimit.TransportOptions, _ *http.Request) {
			o.Download = core.Must(partition.New(partition.Options[*http.Request, string]{
				Key: func(*http.Request) string { panic("boom") },
				New: func(string) (core.Limiter, error) { return core.Unlimited(), nil },
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, body := atOnce(t, 1, 0), &closing{Reader: strings.NewReader("body")}
			o := httplimit.TransportOptions{Limiter: all(l), Base: answers(func() *http.Response {
				response := answer(c.status, "", "Retry-After", "0")
				response.ContentLength, response.Body = -1, body
				return response
			})}
			r := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", strings.NewReader("request")))
			c.prepare(&o, r)
			send := func() {
				response, err := core.Must(httplimit.NewTransport(o)).RoundTrip(r)
				if c.want != "" {
					require.ErrorContains(t, err, c.want)
				} else if err == nil {
					_ = response.Body.Close()
				}
			}
			if c.want == "" {
				require.PanicsWithValue(t, "boom", send)
			} else {
				send()
			}
			require.Equal(t, c.status != 0, body.closed == 1)
			free(t, l)
		})
	}
}
