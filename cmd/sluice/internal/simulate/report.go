package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// report is what --json prints.
type report struct {
	engine.Counts

	Shadowed map[string]int   `json:"shadowed,omitempty"` // requests that would have been rejected but for shadow, by policy
	Bad      int              `json:"bad"`                // lines that are not requests
	Late     int              `json:"late"`               // lines with an earlier time than one before
	Spread   int              `json:"spread"`             // requests that were moved within their second
	Wait     engine.Waits     `json:"wait"`               // waits of the requests that waited and were granted
	Peak     peaks            `json:"peak"`
	Keys     []engine.KeyRow  `json:"keys"`
	Flows    []engine.FlowRow `json:"flows,omitempty"`
	Half     engine.Counts    `json:"half"`
	Twice    engine.Counts    `json:"twice"`
	Span     float64          `json:"span"`  // seconds from the first request to the last event
	Notes    []string         `json:"notes"` // on how to read the numbers
}

// peaks are requests in the busiest second.
type peaks struct {
	Requests int `json:"requests"`
	Granted  int `json:"granted"`
}

func (r *result) report(top int) report {
	return report{
		Counts: r.main.Counts, Shadowed: r.main.Shadowed,
		Bad: r.lines.Bad, Late: r.times.Late, Spread: r.spread,
		Wait: r.main.Waits.Waits(), Peak: peaks{r.main.ArrivalPeak.Most, r.main.GrantPeak.Most},
		Keys: r.main.TopKeys(r.plan, top), Flows: r.main.TopFlows(r.plan, top),
		Half: r.half.Counts, Twice: r.twice.Counts, Span: time.Duration(r.end).Seconds(), Notes: r.notes(),
	}
}

// notes returns notes on how to read the numbers.
func (r *result) notes() []string {
	notes := make([]string, 0) // JSON has a list in any case
	add := func(format string, args ...any) {
		if note := fmt.Sprintf(format, args...); !slices.Contains(notes, note) { // overrides have the notes of their policy
			notes = append(notes, note)
		}
	}
	if r.spread > 0 {
		add("the log has whole seconds: requests were spread evenly within each second (%s of %s moved); --exact turns that off",
			thousands(r.spread), thousands(r.main.Requests))
	}
	for _, note := range r.lines.Notes() {
		add("%s", note)
	}
	for _, note := range r.times.Notes(r.main.Requests) {
		add("%s", note)
	}
	if r.plan.Paths && r.lines.Requests > 0 && r.lines.Paths == 0 {
		add("there are no paths, so the policies of the routes limit nothing")
	}
	for _, rule := range r.plan.Rules {
		if rule.Limit.Order == core.FairShare && rule.Flow == nil && rule.Policy == "" {
			add("all requests are of one flow, which waits in the order of arrival; --flow says whose turn it is by")
		}
		of := ""
		if rule.Policy != "" {
			of = "policy " + rule.Policy + ": "
		}
		if rule.Limit.Kind == spec.Concurrency && !r.durations && rule.Requests > 0 {
			hint := ""
			if r.synthetic {
				hint = "; --takes says how long a request takes"
			}
			add("%sthere are no durations, so %s is held for no time%s", of, rule.Limit, hint)
		}
		if !rule.First {
			continue
		}
		if n := rule.NoAddresses; n > 0 {
			what := "keys are no addresses"
			if n == 1 {
				what = "key is no address"
			}
			add("%s%d %s, such as %q: is that the client?", of, n, what, rule.NoAddress)
		}
		if rule.Keyless > 0 {
			add("%srequests without %s: %d of %d; they share a limit", of, rule.KeyName, rule.Keyless, rule.Requests)
		}
		if rule.Settles && rule.Requests > 0 {
			add("%sa request costs what it takes at first: %d", of, rule.Cost)
		}
	}
	return notes
}

func (f *flags) write(r *result, w io.Writer) error {
	if f.html != "" {
		if err := os.WriteFile(f.html, []byte(r.page(f.top)), 0o666); err != nil {
			return err
		}
	}
	v := r.report(f.top)
	if f.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	_, err := io.WriteString(w, v.text(r.what))
	return err
}

// text returns the report as text.
func (v report) text(what string) string {
	var b strings.Builder
	share := func(n int) string {
		if v.Requests == 0 {
			return ""
		}
		return fmt.Sprintf("  %6.2f %%", 100*float64(n)/float64(v.Requests))
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) }
	say("%s, %d requests in %v\n\n", what, v.Requests, round(v.Span))
	say("granted   %9d%s\n", v.Granted, share(v.Granted))
	say("  waited  %9d%s  before they were granted: p50 %v, p90 %v, p99 %v, max %v\n", v.Queued, share(v.Queued),
		round(v.Wait.P50), round(v.Wait.P90), round(v.Wait.P99), round(v.Wait.Max))
	say("rejected  %9d%s\n", v.Rejected, share(v.Rejected))
	for _, policy := range slices.Sorted(maps.Keys(v.Shadowed)) {
		say("shadowed  %9d%s  would have been rejected by %s\n", v.Shadowed[policy], share(v.Shadowed[policy]), policy)
	}
	if v.Bad > 0 {
		say("not read  %9d  lines\n", v.Bad)
	}
	say("\nbusiest second: %d requests; no second had more than %d granted\n", v.Peak.Requests, v.Peak.Granted)
	say("half the limit:  %d granted%s, %d queued, %d rejected\n", v.Half.Granted, share(v.Half.Granted), v.Half.Queued, v.Half.Rejected)
	say("twice the limit: %d granted%s, %d queued, %d rejected\n", v.Twice.Granted, share(v.Twice.Granted), v.Twice.Queued, v.Twice.Rejected)
	if len(v.Keys) > 1 || len(v.Keys) == 1 && v.Keys[0].Name.String() != "" {
		say("\n%9s %9s %9s %9s  %s\n", "requests", "granted", "queued", "rejected", "key")
		for _, k := range v.Keys {
			say("%9d %9d %9d %9d  %v\n", k.Requests, k.Granted, k.Queued, k.Rejected, k.Name)
		}
	}
	if len(v.Flows) > 0 {
		say("\n%9s %9s %9s %9s %9s %9s  %s\n", "requests", "granted", "rejected", "waited", "wait p50", "wait p99", "flow")
		for _, f := range v.Flows {
			say("%9d %9d %9d %9d %9v %9v  %v\n", f.Requests, f.Granted, f.Rejected, f.Queued, round(f.Wait.P50), round(f.Wait.P99), f.Name)
		}
	}
	for i, note := range v.Notes {
		if i == 0 {
			say("\n")
		}
		say("note: %s\n", note)
	}
	return b.String()
}

// thousands writes a number as 33,555.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func round(seconds float64) time.Duration {
	d := time.Duration(seconds * 1e9)
	switch {
	case d > time.Minute:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
