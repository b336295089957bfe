package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// generatedLines make about 16 MB. The lengths of the lines differ widely.
const generatedLines = 100_000

// generate writes a log to a temporary file and returns its name.
func generate() (name string, err error) {
	f, err := os.CreateTemp("", "sluice-*.log")
	if err != nil {
		return "", err
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	r := rand.New(rand.NewPCG(1, 2))
	padding := strings.Repeat("x", 4000)
	for i := range generatedLines {
		length := r.IntN(200)
		if r.IntN(100) == 0 {
			length = r.IntN(len(padding)) // a stack trace, say
		}
		level := levels[min(r.IntN(10), 3)]
		if _, err = fmt.Fprintf(w, "2026-01-02T15:04:05.%06dZ %s request %d %s\n", i%1_000_000, level, i, padding[:length]); err != nil {
			return "", err
		}
	}
	return f.Name(), w.Flush()
}
