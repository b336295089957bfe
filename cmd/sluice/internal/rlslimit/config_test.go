package rlslimit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
)

// A file is accepted (want is "") or rejected with FILE:LINE:COLUMN: and the text that was expected.
func TestParse(t *testing.T) {
	t.Parallel()
	const limit = "rate_limit: {unit: minute, requests_per_unit: 5}"
	for name, c := range map[string]struct{ text, want string }{
		"a limit":              {"domain: d\ndescriptors:\n- key: k\n  " + limit, ""},
		"no descriptors":       {"domain: d\ndescriptors:\n", ""},
		"JSON":                 {`{"domain": "d", "descriptors": [{"key": "k", "value": 5, "limit": "sliding 6/30s"}]}`, ""},
		"numbers as texts":     {"domain: 7\ndescriptors:\n- {key: 1, value: true}\n- {key: 1, value: 1.10}", ""},
		"yes and 0x10":         {"domain: d\ndescriptors:\n- {key: k, shadow_mode: yes, rate_limit: {unit: DAY, requests_per_unit: 0x10}}", ""},
		"anchors":              {"domain: d\ndescriptors:\n- {key: a, rate_limit: &l {unit: hour, requests_per_unit: 1}}\n- {key: b, rate_limit: *l}", ""},
		"merge keys":           {"domain: d\ndescriptors:\n- {key: a, rate_limit: &l {unit: hour, requests_per_unit: 1}}\n- {key: b, rate_limit: {<<: *l, unit: day}}", ""},
		"spec text":            {"domain: d\nkeys: 5\nfail-open: false\ndescriptors:\n- {key: k, limit: 100/min burst 20}", ""},
		"unlimited":            {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unlimited: true}}", ""},
		"a ban":                {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: second}}", ""},
		"multiples":            {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: second, unit_multiplier: 30, requests_per_unit: 1}}", ""},
		"* anywhere in values": {"domain: d\ndescriptors:\n- {key: k, value: /a*/b}\n- {key: k, value: '*b'}\n- {key: k, value: a*b*c, share_threshold: true}", ""},
		"metadata":             {"domain: d\ndescriptors:\n- {key: k, metadata: {any: [key, 1, {x: y}], 5: null}}", ""},
		"metadata of a limit":  {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, metadata: {a: b}}}", ""},
		"a value below a key":  {"domain: d\ndescriptors:\n- {key: k}\n- {key: k, value: v}\n- {key: k, value: v*}", ""},
		"keys that mean nothing there": {
			"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: second, requests_per_unit: 1, shadow_mode: true}}", "",
		},

		"empty":                 {"", "f:1:1: config file cannot have empty domain: want domain: NAME"},
		"no domain":             {"descriptors:", "f:1:1: config file cannot have empty domain: want domain: NAME"},
		"not YAML":              {"'''\n", "f:1:1: error loading config file: found unexpected end of stream while scanning a quoted scalar"},
		"a list":                {"- a", "f:1:1: the file is a list, want keys and values"},
		"no key":                {"domain: d\ndescriptors:\n- value: v", "f:3:3: descriptor has empty key: want key: NAME"},
		"twice":                 {"domain: d\ndescriptors:\n- {key: k, value: v}\n- {key: k, value: v}", "f:4:3: duplicate descriptor composite key 'd.k_v'"},
		"the same name":         {"domain: d\ndescriptors:\n- {key: k, value: v}\n- {key: k_v}", "f:4:3: duplicate descriptor composite key 'd.k_v'"},
		"unit":                  {"domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    unit: foo", "f:5:11: invalid rate limit unit 'foo', want second, minute, hour, day, week, month or year"},
		"no unit":               {"domain: d\ndescriptors:\n- key: k\n  rate_limit: {requests_per_unit: 5}", "f:4:15: invalid rate limit unit '', want second, minute, hour, day, week, month or year"},
		"unit unknown":          {"domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: unknown}", "f:4:22: invalid rate limit unit 'unknown', want second, minute, hour, day, week, month or year"},
		"unlimited, and a unit": {"domain: d\ndescriptors:\n- key: k\n  rate_limit: {unlimited: true, unit: day}", "f:4:39: should not specify rate limit unit when unlimited"},
		"misspelled":            {"domain: d\ndescriptors:\n- key: k\n  ratelimit: 5", "f:4:3: config error, unknown key 'ratelimit', want one of descriptors, detailed_metric, key, limit, metadata, quota_mode, rate_limit, shadow_mode, share_threshold, value, value_to_metric"},
		"misspelled below":      {"domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requestsperunit: 5}", "f:4:27: config error, unknown key 'requestsperunit', want one of name, replaces, requests_per_unit, unit, unit_multiplier, unlimited"},
		"a key that is no text": {"0.25: d\ndomain: d", "f:1:1: config error, key is not of type string: 0.25"},
		"a list of texts":       {"domain: d\ndescriptors:\n- a\n- b", "f:3:3: config error, yaml file contains list of type other than map: \"a\"\nf:4:3: config error, yaml file contains list of type other than map: \"b\""},
		"replaces nothing":      {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, replaces: [{name: }]}}", "f:3:47: should not have an empty replaces entry: want name: NAME"},
		"replaces itself":       {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}", "f:3:24: replaces should not contain name of same descriptor"},
		"share_threshold":       {"domain: d\ndescriptors:\n- {key: k, value: v, share_threshold: true}", "f:3:39: share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'"},
		"* in a key":            {"domain: d\ndescriptors:\n- {key: k*}", "f:3:9: key 'k*' has a *, which can only stand in a value"},
		"no metadata":           {"domain: d\ndescriptors:\n- {key: k, metadata: [a]}", "f:3:22: metadata is a list, want keys and values"},
		"a key of the future":   {"domain: d\ndescriptors:\n- {key: k, hits_addend: 5}", "f:3:12: config error, unknown key 'hits_addend'"},
		"concurrency":           {"domain: d\ndescriptors:\n- {key: k, limit: concurrency 5}", "f:3:19: limit: \"concurrency 5\" is for what runs at a time, and nothing says when a request ends: want a bucket, a fixed or a sliding window"},
		"concurrency beside":    {"domain: d\ndescriptors:\n- {key: k, limit: \"5/s, concurrency 5\"}", "f:3:19: limit: \"concurrency 5\" is for what runs at a time, and nothing says when a request ends: want a bucket, a fixed or a sliding window"},
		"bytes beside":          {"domain: d\ndescriptors:\n- {key: k, limit: \"5/s, 8kB/s\"}", "f:3:19: limit: \"8kB/s\" is an amount of bytes, but a limit counts hits: write a number such as 10/s, without B"},
		"two wrong limits":      {"domain: d\ndescriptors:\n- {key: k, limit: \"5/s queue 2, concurrency 5\"}", "f:3:19: limit: \"5/s queue 2\" has a queue, in which no request waits\nf:3:19: limit: \"concurrency 5\""},
		"nothing after a comma": {"domain: d\ndescriptors:\n- {key: k, limit: \"5/s,\"}", "f:3:19: limit: \"5/s,\": want a limit before and after each comma"},
		"a comma in a number":   {"domain: d\ndescriptors:\n- {key: k, limit: \"1,000/s\"}", "a comma separates limits, so write 1000 or 1_000"},
		"a queue":               {"domain: d\ndescriptors:\n- {key: k, limit: 5/s queue 2}", "f:3:19: limit: \"5/s queue 2\" has a queue, in which no request waits"},
		"no spec":               {"domain: d\ndescriptors:\n- {key: k, limit: 5/x}", "f:3:19: limit: \"5/x\": unknown time \"x\""},
		"both":                  {"domain: d\ndescriptors:\n- key: k\n  " + limit + "\n  limit: 5/s", "f:5:10: limit and rate_limit: want one of them"},
		"a number in quotes":    {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: '5'}}", "f:3:55: requests_per_unit is \"5\", want a whole number from 0 to 4294967295"},
		"below 0":               {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: -5}}", "f:3:55: requests_per_unit is -5, want a whole number from 0 to 4294967295"},
		"multiplier 0":          {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, unit_multiplier: 0}}", "f:3:53: unit_multiplier is 0, want a whole number from 1 to 4294967295"},
		"multiplier":            {"domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, unit_multiplier: 99999}}", "f:3:53: unit_multiplier is 99999, want at most 53375 for this unit"},
		"no keys":               {"domain: d\nkeys: 0", "f:2:7: keys is 0, want a whole number from 1 to 4294967295"},
		"fail-open":             {"domain: d\nfail-open: maybe", "f:2:12: fail-open is \"maybe\", want true or false"},
		"all of them":           {"descriptors:\n- {key: k, limit: }\n- {}", "f:1:1: config file cannot have empty domain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := rlslimit.Parse("f", []byte(c.text))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// The bound on aliases is not one on files. A large file with an error in each descriptor reports some of them.
func TestParseLargeFile(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range 90_000 {
		fmt.Fprintf(&b, "- key: user\n  value: u%d\n  rate_limit:\n    unit: minute\n    requests_per_unit: 5\n", i)
	}
	_, err := rlslimit.Parse("f", []byte(b.String()))
	require.NoError(t, err)
	part, _, _ := strings.Cut(b.String(), "- key: user\n  value: u2000\n")
	_, err = rlslimit.Parse("f", []byte(strings.ReplaceAll(part, "minute", "fortnight")))
	require.ErrorContains(t, err, "f:6:11: invalid rate limit unit 'fortnight'")
	assert.Len(t, strings.Split(err.Error(), "\n"), 101)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"unit: day, requests_per_unit: 1, shadow_mode: true": `f:3:58: warning: rate_limit has no "shadow_mode": it is ignored`,
		"unit: day":                       "f:3:24: warning: rate_limit has no requests_per_unit: it rejects everything, like requests_per_unit: 0",
		"unit: day, requests_per_unit:":   "f:3:24: warning: rate_limit has no requests_per_unit: it rejects everything, like requests_per_unit: 0",
		"unit: day, requests_per_unit: 0": "",
		"unlimited: true":                 "",
	} {
		c, err := rlslimit.Parse("f", []byte("domain: d\ndescriptors:\n- {key: k, rate_limit: {"+limit+"}}"))
		require.NoError(t, err)
		text := ""
		if err := errors.Join(c.Warnings()...); err != nil {
			text = err.Error()
		}
		assert.Equal(t, want, text, limit)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := write(t, dir, "a.yaml", "domain: a\ndescriptors:\n- {key: k, limit: 1/s}\n")
	write(t, dir, "b.json", `{"domain": "b"}`)
	write(t, dir, ".hidden.yaml", `no`)
	write(t, dir, "README.md", `no`)

	c, err := rlslimit.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, c.Domains())

	c, err = rlslimit.Load()
	require.NoError(t, err)
	assert.Empty(t, c.Domains())

	_, err = rlslimit.Load(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = rlslimit.Load(t.TempDir())
	require.ErrorContains(t, err, "no file in this directory ends in .yaml, .yml or .json")

	other := write(t, t.TempDir(), "c.yaml", "domain: a\ndescriptors:\n- {key: l, limit: 1/s}\n")
	_, err = rlslimit.Load(a, a)
	require.EqualError(t, err, a+":1:9: duplicate domain 'a' in config file, first in "+a+":1; --merge would merge the files")
	_, err = rlslimit.Load(dir, other)
	require.ErrorContains(t, err, "c.yaml:1:9: duplicate domain 'a' in config file, first in "+a+":1")
	bad := write(t, t.TempDir(), "bad.yaml", "domain: a\ndescriptors: 5\n")
	_, err = rlslimit.Load(bad, dir)
	require.EqualError(t, err, bad+":2:14: descriptors is 5, want a list", "the file that it shares the domain with is good")
	c, err = rlslimit.LoadMerged(dir, other)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, c.Domains())
	_, err = rlslimit.LoadMerged(dir, a)
	require.ErrorContains(t, err, "a.yaml:3:3: duplicate descriptor composite key 'a.k'")
	half := write(t, t.TempDir(), "half.yaml", "domain: a\ndescriptors:\n- {key: l, limit: 1/s}\n- {key: m, limit: 1}\n")
	_, err = rlslimit.LoadMerged(dir, half, other)
	require.ErrorContains(t, err, half+":4:19: limit: ")
	require.NotContains(t, err.Error(), other, "the file that it shares a descriptor with is good")
}

func FuzzParse(f *testing.F) {
	f.Add("domain: d\ndescriptors:\n- &a {key: k, rate_limit: {unit: day}}\n- *a")
	f.Add("domain: d\ndescriptors: &l\n- {key: a, descriptors: *l}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := rlslimit.Parse("f", []byte(text))
		if err == nil && len(c.Domains()) != 1 {
			t.Fatalf("a file has one domain, not %d", len(c.Domains()))
		}
	})
}
