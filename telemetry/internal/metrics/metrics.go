// Package metrics is the table of the metrics that both OpenTelemetry and Prometheus get.
package metrics

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// Metric is a metric as OpenTelemetry names it.
type Metric struct {
	Name, Unit, Description string

	Counter bool // the numbers only grow
}

// Prometheus returns the name in Prometheus' spelling.
func (m Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Counter {
		name += "_total"
	}
	return name
}

// Column is one of the numbers that are read together, at each collection.
type Column struct {
	Metric

	Result string // sluice.result, or ""
}

var leases = Metric{"sluice.limiter.leases", "{lease}", "Leases granted and rejected.", true}

// Limiter is what a limiter counts: the numbers that [OfLimiter] returns.
var Limiter = []Column{
	{Metric: Metric{"sluice.limiter.permits.limit", "{permit}", "The current permit limit.", false}},
	{Metric: Metric{"sluice.limiter.permits.available", "{permit}", "Permits that could be taken now.", false}},
	{Metric: Metric{"sluice.limiter.permits.queued", "{permit}", "Permits that are waited for.", false}},
	{leases, "granted"},
	{leases, "rejected"},
}

// OfLimiter returns the numbers of a limiter.
func OfLimiter(s core.Statistics) []int64 {
	return []int64{int64(s.Limit), int64(s.Available), int64(s.Queued), total(s.Granted), total(s.Rejected)}
}

// What an instrumented limiter reports besides.
var (
	InQueue = Metric{"sluice.limiter.queue.duration", "s", "How long acquisitions waited.", false}
	Held    = Metric{"sluice.limiter.lease.duration", "s", "How long leases were held.", false}
	Settled = Metric{"sluice.limiter.permits.settled", "{permit}", "Permits by which the cost of leases was corrected.", true}
)

// Partitions is what a map of limiters counts: the numbers that [OfPartitions] returns.
var Partitions = []Column{
	{Metric: Metric{"sluice.partition.live", "{partition}", "Partitions that are there now.", false}},
	{Metric: Metric{"sluice.partition.created", "{partition}", "Partitions made.", true}},
	{Metric: Metric{"sluice.partition.dropped", "{partition}", "Partitions dropped for idleness.", true}},
	{Metric: Metric{"sluice.partition.overflowed", "{partition}", "Requests that found no room for a partition.", true}},
}

// OfPartitions returns the numbers of a map of limiters.
func OfPartitions(c partition.Counts) []int64 {
	return []int64{int64(c.Live), total(c.Created), total(c.Dropped), total(c.Overflowed)}
}

// total returns a count that a metric can hold. Versions of the SDK keep it as a float64, so it stays
// below the largest int64.
func total(n uint64) int64 { return int64(min(n, 1<<62)) }

// Resilience counts the events of resilience strategies.
var Resilience = Metric{"sluice.resilience.events", "{event}", "Events of resilience strategies.", true}

// Changes counts the changes of an adaptive limit, by their reasons.
var Changes = Metric{"sluice.adaptive.changes", "{change}", "Changes of adaptive limits.", true}

// Adaptive is what an adaptive limiter reports at each change of its limit: the numbers that [OfChange] returns.
var Adaptive = []Metric{
	{"sluice.adaptive.latency", "s", "The mean latency at the last change of the limit.", false},
	{"sluice.adaptive.baseline", "s", "The latency without load that the algorithm assumes.", false},
}

// OfChange returns the numbers of a change. Those that are not above 0 are unknown.
func OfChange(c adaptive.Change) []float64 {
	return []float64{c.Latency.Seconds(), c.Baseline.Seconds()}
}

// Server is what the observer of a server's requests reports.
type Server struct{ Active, Queued, InQueue, Held, Requests Metric }

// OfServer returns the metrics that start with space and count things, such as requests.
func OfServer(space, thing string) Server {
	unit, things := "{"+thing+"}", strings.ToUpper(thing[:1])+thing[1:]+"s"
	return Server{
		Active:   Metric{space + ".active_" + thing + "_leases", unit, things + " that hold a lease.", false},
		Queued:   Metric{space + ".queued_" + thing + "s", unit, things + " that wait for a lease.", false},
		InQueue:  Metric{space + "." + thing + ".time_in_queue", "s", "How long " + thing + "s waited for a lease.", false},
		Held:     Metric{space + "." + thing + "_lease.duration", "s", "How long " + thing + "s held a lease.", false},
		Requests: Metric{space + "." + thing + "s", unit, things + " that asked for a lease.", true},
	}
}

// Read returns the numbers of read, or its panic as an error: it calls the Statistics of a user's limiter.
func Read(read func() []int64) (numbers []int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v", p)
		}
	}()
	return read(), nil
}

// Label returns a text as exporters take it: they reject what is not valid UTF-8, and other metrics with it.
func Label(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Buckets are the bounds of histograms, in seconds: from 1 µs to 100 s, three a decade.
func Buckets() []float64 {
	return []float64{
		1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
		0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
	}
}
