package main

import (
	"path"
	"strings"
)

// A kind is a kind of processor. Ratios differ between them, so each has its own goals, its
// own folder of results and its own column in the table.
type kind string

const (
	intel kind = "Intel"
	amd   kind = "AMD"
	other kind = "other" // has no goals
)

// kinds are in the order of the columns.
var kinds = []kind{intel, amd, other}

// kindOf returns the kind of a processor, given the name that Go's benchmarks print after
// "cpu:".
func kindOf(cpu string) kind {
	for _, k := range []kind{intel, amd} {
		if strings.Contains(cpu, string(k)) {
			return k
		}
	}
	return other
}

// folder returns the folder of a kind's results.
func (k kind) folder() string { return path.Join("results", strings.ToLower(string(k))) }

// file returns the file with a measurement's results on a kind of processor.
func (k kind) file(measurement string) string { return path.Join(k.folder(), measurement+".txt") }
