package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// measured are the results of each measurement on one kind of processor, by its name.
type measured map[string]*results

// load reads all results that there are.
func load() (map[kind]measured, error) {
	all := map[kind]measured{}
	for _, k := range kinds {
		all[k] = measured{}
		for _, m := range measurements() {
			output, err := os.ReadFile(k.file(m.name))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			res, err := m.parse(k.file(m.name), bytes.NewReader(output))
			if err != nil {
				return nil, err
			}
			if len(res.impls) > 0 {
				all[k][m.name] = res
			}
		}
	}
	return all, nil
}

// results are what a measurement has yielded.
type results struct {
	impls  []string // in the order of the benchmark
	points []int    // of a curve; else 0 alone
	values map[sample][]float64
	config map[string]string // how it was measured, of the last line
}

// sample names a series of values, one per round.
type sample struct {
	impl  string
	point int
	unit  string
}

// parse reads the benchmark's output, all rounds in their order.
func (m measurement) parse(name string, output io.Reader) (*results, error) {
	r := &results{values: map[sample][]float64{}, config: map[string]string{}}
	reader := benchfmt.NewReader(output, name)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			if err := r.add(m, record); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(r.points)
	return r, reader.Err()
}

func (r *results) add(m measurement, record *benchfmt.Result) error {
	base, parts := record.Name.Parts()
	if string(base) != m.bench {
		return nil
	}
	impl, point := "", 0
	for _, p := range parts {
		key, value, _ := bytes.Cut(bytes.TrimPrefix(p, []byte("/")), []byte("="))
		switch {
		case string(key) == "impl":
			impl = string(value)
		case m.curve != nil && string(key) == m.curve.key:
			var err error
			if point, err = strconv.Atoi(string(value)); err != nil {
				return fmt.Errorf("%s: %w", record.Name, err)
			}
		}
	}
	if m.at != "" && !strings.Contains(string(record.Name), "/"+m.at+"/") {
		return nil
	}
	if !slices.Contains(r.impls, impl) {
		r.impls = append(r.impls, impl)
	}
	if !slices.Contains(r.points, point) {
		r.points = append(r.points, point)
	}
	for _, v := range record.Values {
		value, unit := v.Value, v.Unit
		switch unit { // benchfmt's units are without prefixes
		case "sec/op":
			value, unit = value*1e9, "ns/op"
		case "longest-sec":
			value, unit = value*1e9, longestCall
		case "B/s":
			value, unit = value/1e9, "GB/s"
		}
		key := sample{impl, point, unit}
		r.values[key] = append(r.values[key], value)
	}
	for _, c := range record.Config {
		r.config[c.Key] = string(c.Value)
	}
	return nil
}

// units returns the units of the values.
func (r *results) units() []string {
	var units []string
	for s := range r.values {
		if !slices.Contains(units, s.unit) {
			units = append(units, s.unit)
		}
	}
	return units
}

// order returns the implementations in the order of the benchmark, ours first.
func (r *results) order() []string {
	impls := slices.Clone(r.impls)
	slices.SortStableFunc(impls, func(a, b string) int { return rank(a) - rank(b) })
	return impls
}

func rank(impl string) int {
	if isOurs(impl) {
		return 0
	}
	return 1
}

func isOurs(impl string) bool { return strings.HasPrefix(impl, ours) }

// ratios returns, for each round, ours divided by the rival's.
func (r *results) ratios(ours, rival string, point int, unit string) []float64 {
	return r.pairs(ours, rival, point, unit, func(a, b float64) float64 { return a / b })
}

// differences returns, for each round, ours less the rival's.
func (r *results) differences(ours, rival string, point int, unit string) []float64 {
	return r.pairs(ours, rival, point, unit, func(a, b float64) float64 { return a - b })
}

// pairs returns, for each round, what compare makes of ours and the rival's.
func (r *results) pairs(ours, rival string, point int, unit string, compare func(a, b float64) float64) []float64 {
	a, b := r.values[sample{ours, point, unit}], r.values[sample{rival, point, unit}]
	n := min(len(a), len(b))
	compared := make([]float64, n)
	for i := range n {
		compared[i] = compare(a[i], b[i])
	}
	return compared
}

// quantile returns the q-quantile of values, by linear interpolation; 0.5 is the median.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func median(values []float64) float64 { return quantile(values, 0.5) }
