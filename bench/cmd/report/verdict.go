package main

import "fmt"

// verdict is how a line of the table came out on a kind of processor.
type verdict struct {
	line
	most         float64 // the goal; 0: none
	ours, theirs float64 // medians
	ratio        float64 // median of the pairs' ratios, or of their differences
	low, high    float64 // the pairs' quartiles
	ownAllocs    float64 // of ours, per operation
	met          bool
}

// judge returns the verdict on a line from what was measured on a kind of processor. It
// returns false if a figure is missing.
func judge(l line, k kind, all measured) (verdict, bool) {
	res := all[l.measurement]
	if res == nil {
		return verdict{}, false
	}
	unit := l.unit
	if unit == "" {
		unit = "ns/op"
	}
	mine := res.values[sample{l.ours, 0, unit}]
	v := verdict{
		line: l, most: l.goal.on(k), ours: median(mine),
		ownAllocs: median(res.values[sample{l.ours, 0, "allocs/op"}]),
	}
	if len(mine) == 0 {
		return v, false
	}
	if l.unit != "" {
		v.met = v.ours <= v.most
		return v, true
	}
	compare := res.ratios
	if l.more {
		compare = res.differences
	}
	pairs := compare(l.ours, l.rival, 0, unit)
	if len(pairs) == 0 {
		return v, false
	}
	v.theirs = median(res.values[sample{l.rival, 0, unit}])
	v.ratio, v.low, v.high = median(pairs), quantile(pairs, 0.25), quantile(pairs, 0.75)
	v.met = v.ratio <= v.most && (l.allocs == anyAllocs || v.ownAllocs <= float64(l.allocs))
	return v, true
}

// compared returns how ours compares with theirs for a cell of a table: the ratio, the
// difference, or the amount of ours.
func (v verdict) compared() string {
	switch {
	case v.unit != "":
		return "**" + figure(v.ours) + v.suffix() + "**"
	case v.more:
		return fmt.Sprintf("**%+.0f ns** (%+.0f–%+.0f)", v.ratio, v.low, v.high)
	default:
		return fmt.Sprintf("**%.2f** (%.2f–%.2f)", v.ratio, v.low, v.high)
	}
}

// loss marks a ratio at which ours is slower, for readers who look for that.
func (v verdict) loss() string {
	if v.unit == "" && !v.more && v.ratio > 1 {
		return " slower"
	}
	return ""
}

// answer returns whether the goal is met, for a cell of a table.
func (v verdict) answer() string {
	switch {
	case v.most == 0:
		return ""
	case v.met:
		return "yes"
	default:
		return "no"
	}
}

// allocated returns the allocations of ours for a cell of a table, with their goal unless
// that is 0.
func (v verdict) allocated() string {
	switch {
	case v.unit != "":
		return ""
	case v.allocs == anyAllocs:
		return figure(v.ownAllocs) + ", no goal"
	case v.allocs > 0:
		return fmt.Sprintf("%s, goal %d", figure(v.ownAllocs), v.allocs)
	default:
		return figure(v.ownAllocs)
	}
}
