// Package play answers the questions of the playground's page: it plays requests through limits, and returns counts over time.
package play

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/spec"
)

// Page plays for one page. The zero Page has no log. It is not safe for concurrent use.
type Page struct {
	log  []byte
	last Input // whose traffic is kept
	kept *traffic
}

// Input is a question of a page.
type Input struct {
	Limits   []string `json:"limits"`
	Key      string   `json:"key"`      // key, written as for simulate --key
	Flow     string   `json:"flow"`     // flow, written as for simulate --flow; for limits in another order it only tells waits apart
	Arrivals string   `json:"arrivals"` // arrivals, written as for simulate --arrivals; "" means the log
	Takes    string   `json:"takes"`    // durations of the requests of Arrivals, written as for simulate --takes
	Seed     uint64   `json:"seed"`
	Fields   string   `json:"fields"` // fields, written as for simulate --fields
	Exact    bool     `json:"exact"`  // whether times stay as they are, as with simulate --exact
	Log      string   `json:"log"`    // its name, for the command
}

// Output is the answer, which the page shows. Times are seconds.
type Output struct {
	Error    string   `json:"error,omitempty"` // error in the arrivals; then there is no other field
	Empty    bool     `json:"empty,omitempty"` // Error is only that there is no log yet
	Requests int      `json:"requests"`
	Keys     int      `json:"keys"`
	Span     float64  `json:"span"`  // time from the first request to the last
	Width    float64  `json:"width"` // width of a bin
	Notes    []string `json:"notes"`
	Results  []Result `json:"results"` // results of each limit
}

// Load sets the log, which may be compressed with gzip, bzip2 or zstd.
func (p *Page) Load(log []byte) { *p = Page{log: log} }

// Play plays the arrivals through each limit. The only error is that of ctx.
func (p *Page) Play(ctx context.Context, in Input) (Output, error) {
	if ctx.Err() != nil {
		return Output{}, ctx.Err() // canceled while another page was served
	}
	t, err := p.traffic(in)
	if err != nil {
		typed := strings.TrimPrefix(err.Error(), strconv.Quote(in.Arrivals)+": ") // a part of it is quoted
		return Output{Error: typed, Empty: errors.Is(err, errNoLog), Notes: []string{}, Results: faults(in.Limits)}, nil
	}
	out := Output{Requests: len(t.requests), Keys: t.plan.Keys(), Span: seconds(t.span()), Width: t.width().Seconds(), Notes: t.notes}
	out.Results = make([]Result, len(in.Limits))
	var all sync.WaitGroup
	for i, text := range in.Limits {
		all.Go(func() { out.Results[i] = play(ctx, text, t, in) })
	}
	all.Wait()
	return out, ctx.Err()
}

// traffic is the requests to play.
type traffic struct {
	requests []engine.Request
	notes    []string
	took     bool  // some have a duration
	base     int64 // Unix nanoseconds of the first request
	plan     *engine.Plan
}

func (t *traffic) span() int64 {
	if len(t.requests) == 0 {
		return 0
	}
	return t.requests[len(t.requests)-1].At
}

// wantBins is about how many bins there are up to the last request.
const wantBins = 400

// width returns the width of a bin, which is round.
func (t *traffic) width() time.Duration {
	w := time.Millisecond
	for i := 0; w*wantBins < time.Duration(t.span()); i++ { // maxSpan keeps it from overflowing
		if w *= 2; i%3 == 1 {
			w += w / 4 // 1, 2, 5, 10
		}
	}
	return w
}

// maxRequests bounds the memory and the time.
const maxRequests = 5_000_000

// maxSpan keeps times after the last request in an int64.
const maxSpan = 100 * 365 * 24 * time.Hour

var errNoLog = errors.New("there is no log yet: paste one, or drop a file")

var errTooLong = errors.New("from the first request to the last there are more than 100 years, which is the most that this page plays")

var errTooMany = fmt.Errorf("more than %d requests, the maximum that this page plays; sluice simulate plays any number", maxRequests)

// traffic returns the requests that q asks for.
func (p *Page) traffic(q Input) (*traffic, error) {
	q.Limits, q.Log = nil, "" // they make no difference
	if p.kept != nil && reflect.DeepEqual(p.last, q) {
		return p.kept, nil
	}
	p.kept = nil
	plan, err := engine.Of(make(spec.Limits, 1), q.Key)
	if err != nil {
		return nil, err
	}
	if q.Flow != "" {
		if err := plan.ByFlow(q.Flow); err != nil {
			return nil, err
		}
	}
	t := &traffic{notes: []string{}, plan: plan}
	if q.Arrivals != "" {
		err = t.generate(q)
	} else {
		err = t.read(q, p.log)
	}
	if err != nil {
		return nil, err
	}
	if t.span() > int64(maxSpan) {
		return nil, errTooLong
	}
	if r := plan.Rules[0]; r.Keyless > 0 {
		t.note("requests without %s: %d of %d; they share a limit", q.Key, r.Keyless, r.Requests)
	}
	p.last, p.kept = q, t
	return t, nil
}

// generate makes synthetic requests.
func (t *traffic) generate(q Input) error {
	a, err := engine.ParseArrivals(q.Arrivals, q.Seed)
	if err == nil {
		a, err = a.Taking(q.Takes)
	}
	if err != nil {
		return err
	}
	if a.Mean() > maxRequests {
		return errTooMany
	}
	t.requests = make([]engine.Request, 0, int(a.Mean()*1.01)+1000)
	if err := t.add(a.Requests(t.plan)); err != nil {
		return err // the first burst may have more than the mean says
	}
	if len(t.requests) == 0 {
		return errors.New("there is no request in this time")
	}
	return nil
}

// read reads requests from a log.
func (t *traffic) read(q Input, log []byte) error {
	if len(log) == 0 {
		return errNoLog
	}
	lines, err := accesslog.New(q.Fields)
	if err != nil {
		return fmt.Errorf("--fields %w", err)
	}
	var times engine.Times
	moved := 0
	requests := t.plan.Read(lines, bytes.NewReader(log), &times)
	if !q.Exact {
		requests = engine.Spread(requests, &moved)
	}
	if err := cmp.Or(t.add(requests), lines.Err()); err != nil {
		return err
	}
	if len(t.requests) == 0 {
		return errors.New("the log is empty")
	}
	if moved > 0 {
		t.note("the log has whole seconds: requests were spread evenly within each second")
	}
	if lines.Bad > 0 {
		t.note("lines that are no requests: %d", lines.Bad)
	}
	for _, note := range append(lines.Notes(), times.Notes(len(t.requests))...) {
		t.note("%s", note)
	}
	return nil
}

// add adds requests, with times since the first.
func (t *traffic) add(requests iter.Seq[engine.Request]) error {
	for r := range engine.FromFirst(requests, &t.base) {
		if len(t.requests) == maxRequests {
			return errTooMany
		}
		t.took = t.took || r.Took > 0
		t.requests = append(t.requests, r)
	}
	return nil
}

// note adds a note, as a sentence.
func (t *traffic) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	t.notes = append(t.notes, strings.ToUpper(note[:1])+note[1:]+".")
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
