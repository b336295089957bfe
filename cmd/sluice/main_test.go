//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Tests of real processes mostly wait. A -parallel of the command line overrides this.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	testscript.Main(leakless{m}, map[string]func(){
		"sluice": main,
		"job":    job,
	})
}

// leakless fails tests that pass if they leave a goroutine behind.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	status := m.M.Run()
	if err := goleak.Find(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector makes each command wait for a second at its end
			var big bytes.Buffer
			for i := 0; big.Len() < 20000; i++ {
				fmt.Fprintf(&big, "%07d\n", i)
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "big.bin"), big.Bytes(), 0o666)
		},
		Cmds:                commands,
		RequireExplicitExec: true,
	})
}
